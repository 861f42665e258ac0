# install.mk: what is installed and where, and the packages: all of them hold what `make install` puts into an empty folder.

prefix ?= $(or $(PREFIX),/usr/local)
exec_prefix ?= $(prefix)
bindir ?= $(exec_prefix)/bin
libdir ?= $(exec_prefix)/lib
includedir ?= $(prefix)/include
datadir ?= $(prefix)/share
mandir ?= $(datadir)/man
docdir ?= $(datadir)/doc/vramgc
PACKAGES ?= $(BUILD)/packages
NUMBER := $(shell scripts/version | cut -d+ -f1)
GENERATED := $(BUILD)/generated

# What the command says of itself: manual and completions.
$(GENERATED)/%: $(BUILD)/vramgc
	@mkdir -p $(@D)
	@$(BUILD)/vramgc help $* > $@

GENERATES := $(addprefix $(GENERATED)/,man completion-bash completion-zsh completion-fish prometheus-rules grafana-dashboard)
GUIDES := $(wildcard src/guides/*.md)

install: all $(GENERATES)
	install -D -m 755 $(BUILD)/vramgc $(DESTDIR)$(bindir)/vramgc
	install -D -m 755 $(BUILD)/libvramgc.so $(DESTDIR)$(libdir)/vramgc/libvramgc.so
	install -D -m 644 include/vramgc.h $(DESTDIR)$(includedir)/vramgc.h
	install -d $(DESTDIR)$(libdir)/pkgconfig
	printf '%s\n' 'prefix=$(prefix)' 'libdir=$(libdir)' 'includedir=$(includedir)' 'preload=$${libdir}/vramgc/libvramgc.so' '' \
	    'Name: vramgc' 'Description: gives idle GPU memory of PyTorch programs back; its functions are weak symbols' \
	    'Version: $(NUMBER)' 'Cflags: -I$${includedir}' > $(DESTDIR)$(libdir)/pkgconfig/vramgc.pc
	install -D -m 644 $(GENERATED)/man $(DESTDIR)$(mandir)/man1/vramgc.1
	install -D -m 644 $(GENERATED)/completion-bash $(DESTDIR)$(datadir)/bash-completion/completions/vramgc
	install -D -m 644 $(GENERATED)/completion-zsh $(DESTDIR)$(datadir)/zsh/site-functions/_vramgc
	install -D -m 644 $(GENERATED)/completion-fish $(DESTDIR)$(datadir)/fish/vendor_completions.d/vramgc.fish
	install -D -m 644 $(GENERATED)/prometheus-rules $(DESTDIR)$(docdir)/prometheus-rules.yml
	install -D -m 644 $(GENERATED)/grafana-dashboard $(DESTDIR)$(docdir)/grafana-dashboard.json
	install -d $(DESTDIR)$(docdir)/guides
	install -m 644 src/LIMITS.md $(DESTDIR)$(docdir)
	install -m 644 $(GUIDES) $(DESTDIR)$(docdir)/guides

uninstall:
	rm -f $(addprefix $(DESTDIR),$(bindir)/vramgc $(libdir)/vramgc/libvramgc.so $(includedir)/vramgc.h $(libdir)/pkgconfig/vramgc.pc \
	    $(mandir)/man1/vramgc.1 $(datadir)/bash-completion/completions/vramgc $(datadir)/zsh/site-functions/_vramgc \
	    $(datadir)/fish/vendor_completions.d/vramgc.fish $(docdir)/LIMITS.md $(docdir)/prometheus-rules.yml $(docdir)/grafana-dashboard.json $(addprefix $(docdir)/guides/,$(notdir $(GUIDES))))
	@rmdir $(addprefix $(DESTDIR),$(libdir)/vramgc $(docdir)/guides $(docdir)) 2>/dev/null || true

deb: all
	@scripts/package deb $(PACKAGES) $(BUILD)

wheel: all
	@scripts/package wheel $(PACKAGES) $(BUILD)

dist:
	@scripts/package dist $(PACKAGES) $(BUILD)

.PHONY: uninstall deb wheel dist
