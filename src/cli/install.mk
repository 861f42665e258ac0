# install.mk: what is installed and where, and the packages: all of them hold what `make install` puts into an empty folder.

prefix ?= $(or $(PREFIX),/usr/local)
# bash writes its user's folder for ~ there, other shells do not.
override prefix := $(patsubst ~/%,$(HOME)/%,$(prefix))
exec_prefix ?= $(prefix)
bindir ?= $(exec_prefix)/bin
libdir ?= $(exec_prefix)/lib
includedir ?= $(prefix)/include
datadir ?= $(prefix)/share
mandir ?= $(datadir)/man
docdir ?= $(datadir)/doc/vramgc
PACKAGES ?= $(BUILD)/packages
NUMBER := $(shell scripts/version | cut -d+ -f1)
GUIDES := $(wildcard src/guides/*.md)

# What scripts/texts makes of the command's tables, KIND:FILE, and what the command says by itself, TOPIC:FILE.
TEXTS := man:$(mandir)/man1/vramgc.1 completion-bash:$(datadir)/bash-completion/completions/vramgc \
    completion-zsh:$(datadir)/zsh/site-functions/_vramgc completion-fish:$(datadir)/fish/vendor_completions.d/vramgc.fish
SAID := prometheus-rules:$(docdir)/prometheus-rules.yml grafana-dashboard:$(docdir)/grafana-dashboard.json

# Seen from its own folder, where the command looks for its library (src/cli/preload.c).
LOOKS_IN = $(foreach lib,lib lib/$(shell $(CC) -print-multiarch) lib64,$(abspath $(bindir)/../$(lib)))

# What was built is installed as it is, and this tree is left alone: who installs is root, and did not build it.
BUILT := $(if $(filter-out install,$(MAKECMDGOALS)),,$(and $(wildcard $(BUILD)/vramgc),$(wildcard $(BUILD)/libvramgc.so)))
install: $(if $(BUILT),,all)
	@case "$(prefix)" in /*) ;; *) echo "prefix is to be a whole path, not $(prefix)" >&2; exit 1 ;; esac
	@case " $(LOOKS_IN) " in *" $(abspath $(libdir)) "*) ;; *) \
	    echo "$(bindir)/vramgc would not find its library in $(libdir): choose libdir=$(abspath $(bindir)/../lib)" >&2; exit 1 ;; esac
	@install -D -m 755 $(BUILD)/vramgc $(DESTDIR)$(bindir)/vramgc
	@install -D -m 755 $(BUILD)/libvramgc.so $(DESTDIR)$(libdir)/vramgc/libvramgc.so
	@for file in $(BUILD)/whatif/lib*; do [ ! -e $$file ] || \
	    install -D -m 644 $$file $(DESTDIR)$(libdir)/vramgc/whatif/$${file##*/} || exit 1; done
	@install -D -m 644 include/vramgc.h $(DESTDIR)$(includedir)/vramgc.h
	@install -d $(DESTDIR)$(libdir)/pkgconfig
	@umask 022; printf '%s\n' 'prefix=$(prefix)' 'libdir=$(libdir)' 'includedir=$(includedir)' 'preload=$${libdir}/vramgc/libvramgc.so' '' \
	    'Name: vramgc' 'Description: gives idle GPU memory of PyTorch programs back; its functions are weak symbols' \
	    'Version: $(NUMBER)' 'Cflags: -I$${includedir}' > $(DESTDIR)$(libdir)/pkgconfig/vramgc.pc
	@umask 022; for it in $(TEXTS); do file=$(DESTDIR)$${it#*:}; \
	    install -d $${file%/*} && scripts/texts $${it%%:*} $(BUILD)/vramgc > $$file || exit 1; done
	@install -d $(DESTDIR)$(docdir)/guides
	@umask 022; for it in $(SAID); do $(BUILD)/vramgc help $${it%%:*} > $(DESTDIR)$${it#*:} || exit 1; done
	@install -m 644 src/LIMITS.md LICENSE $(DESTDIR)$(docdir)
	@install -m 644 $(GUIDES) $(DESTDIR)$(docdir)/guides
	@[ -z "$$(find src include \( -name '*.[chS]' -o -name '*.def' -o -name '*.yml' -o -path '*/page/*' \) \
	    -newer $(BUILD)/vramgc -newer $(BUILD)/libvramgc.so -print -quit)" ] || \
	    echo "NOTE: the source has changed since the build that is installed now; for the newer one: make, then this again"
	@case "$(DESTDIR)::$$PATH:" in :*":$(bindir):"*) it=vramgc ;; :*) it=$(bindir)/vramgc ;; *) exit 0 ;; esac; \
	    echo "Installed. Next: $$it run ./webui.sh"

# Folders of others, or that a system has from its start, stay, empty or not.
OWN_FOLDERS = $(libdir)/vramgc/whatif $(libdir)/vramgc $(libdir)/pkgconfig $(docdir)/guides $(docdir) $(datadir)/bash-completion/completions $(datadir)/bash-completion \
    $(datadir)/zsh/site-functions $(datadir)/zsh $(datadir)/fish/vendor_completions.d $(datadir)/fish \
    $(if $(filter /usr /usr/local,$(prefix)),,$(mandir)/man1 $(mandir) $(datadir)/doc $(datadir) $(libdir) $(includedir) $(bindir) $(exec_prefix) $(prefix))

uninstall:
	@rm -f $(addprefix $(DESTDIR),$(bindir)/vramgc $(libdir)/vramgc/libvramgc.so $(includedir)/vramgc.h $(libdir)/pkgconfig/vramgc.pc \
	    $(foreach it,$(TEXTS) $(SAID),$(lastword $(subst :, ,$(it)))) $(docdir)/LIMITS.md $(docdir)/LICENSE $(addprefix $(docdir)/guides/,$(notdir $(GUIDES))))
	@rm -f $(DESTDIR)$(libdir)/vramgc/whatif/lib*.so.*
	@rmdir $(addprefix $(DESTDIR),$(OWN_FOLDERS)) 2>/dev/null || true

deb: all
	@file=$$(scripts/package deb $(PACKAGES) $(BUILD)) && echo "sudo apt install $$file"

wheel: all
	@file=$$(scripts/package wheel $(PACKAGES) $(BUILD)) && echo "pip install $$file"

dist:
	@scripts/package dist $(PACKAGES) $(BUILD)

.PHONY: uninstall deb wheel dist
