#!/usr/bin/env bash
# The test command behind `make test`: lint beside the core with its coverage gate, all other tests, the demo.
# The tests' servers are stopped at the end, whatever happened. PYTEST narrows the run.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
stop() { for home in var/test var/test-demo; do
    [ ! -d $home ] || TELEMACHUS_HOME=$home $python manage.py stop >/dev/null 2>&1 || true; done; }
trap stop EXIT
mkdir -p var
make --no-print-directory lint >var/lint.log 2>&1 &  # one core's work, done by the time the core is tested
linting=$!
linted() { wait $linting && cat var/lint.log || { cat var/lint.log; exit 1; }; }

if [ -n "${PYTEST:-}" ]; then
    eval "$python -m pytest -q $PYTEST"
    linted
    exit
fi
$python -m coverage erase
core="tests/scheduling/core tests/billing"  # the decision core is held to 100 % of its branches
whole="tests/e2e tests/chaos"  # these run whole systems, which wait more than they work
$python -m coverage run -m pytest -q -n 2 --dist worksteal $core
$python -m coverage combine --quiet
$python -m coverage report
linted
$python -m pytest -q -n 2 --dist worksteal $(printf -- '--ignore %s ' $core $whole) tests
$python -m pytest -q -n 2 --dist worksteal $whole
port=$($python -c 'from telemachus.local.ports import free_port; print(free_port())')
TELEMACHUS_HOME=var/test-demo $python manage.py demo --exit --port "$port"
