# surroundings.bash: what every test finds around it, whoever runs it, on what machine and with what in his environment. bats' helpers
# load it, tests/as_new and scripts/check read it: no test may depend on anything else that it has not set itself.
# shellcheck shell=bash

# What is kept of the environment: where commands are, how the network is reached, what builds take, what a test can be told.
kept='PATH|PWD|SHLVL|_|HOME|TMPDIR|CI|PYENV_.*|OPENBLAS_.*'
kept+='|.*_(proxy|PROXY)|PIP_.*|.*SSL.*|.*CA_(BUNDLE|CERTS)|DEBIAN_FRONTEND'
kept+='|CC|CXX|CFLAGS|CPPFLAGS|LDFLAGS|WERROR|SIM_CC|TOOLKIT_INCLUDE|PYTHON|SOURCE_DATE_EPOCH'
kept+='|BATS_.*|CHECK_.*|SEED|SEEDS|SECONDS_EACH|RUNS|TAGS|BUILDS|C10_VERSIONS|SWEEP_FULL|UPDATE_GOLDEN|E2E_BUILD'
kept+='|VRAMGC_(LIBRARY|MUTANT)|C10DRIVE_PATIENCE_MS|(ASAN|TSAN|UBSAN)_OPTIONS'

# Once: what a test, or a recipe of make, has set since then is meant.
if [ -z "${IN_SURROUNDINGS:-}" ]; then
    for name in $(compgen -e); do
        [[ $name =~ ^($kept)$ ]] || unset "$name"
    done
    case ${TMPDIR:-} in *[[:space:]:\$]*) unset TMPDIR ;; esac # libraries lie there, which the loader takes
    # Where python3 is a script that looks for Python, as pyenv's is, a test would see bash first.
    name=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))' 2>/dev/null)
    [ ! "$name/python3" -ef "$(command -v python3)" ] && [ -x "$name/python3" ] && PATH=$name:$PATH
    # Python compiles PyTorch once, not in each process, and writes nothing beside it.
    PYTHONPYCACHEPREFIX=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/pycache
    export PYTHONPYCACHEPREFIX IN_SURROUNDINGS=yes LC_ALL=C.UTF-8 TZ=UTC TERM=dumb
fi
unset kept name
umask 022
ulimit -S -c 0 # a test that crashes leaves no file
exec </dev/null

# A test of bats has a home of its own, and finds the repository by a name that the loader takes.
if [ -n "${BATS_TEST_DIRNAME:-}" ]; then
    export HOME=${BATS_TEST_TMPDIR:-${BATS_FILE_TMPDIR:-$BATS_RUN_TMPDIR}}
    case $BATS_TEST_DIRNAME in *[[:space:]:\$]*)
        BATS_TEST_DIRNAME=$("$BATS_TEST_DIRNAME/../../scripts/plain-path")/tests/${BATS_TEST_DIRNAME##*/}
        ;;
    esac
fi
