# Two commands do everything: `make demo` and `make test`. Each sets up what it needs first.
.PHONY: demo test campaign corpus lint setup setup-tests clean

demo: setup
	@.venv/bin/python -m dpone_demo run $(ARGS)

test: setup-tests lint
	@.venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not campaign" --ignore tests/e2e $(ARGS)
	@.venv/bin/python -m pytest -m "not campaign" tests/e2e $(ARGS)

# Slow ones that `make test` leaves out: a second whole run of the main job after the first was killed.
campaign: setup-tests
	@.venv/bin/python -m pytest -m campaign $(ARGS)

# What these tests make the product send to SQL Server is added to the corpus, where it is new.
corpus: setup-tests
	@TSQLDEV_CORPUS=add .venv/bin/python -m pytest $(ARGS)

lint: setup
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .
	@.venv/bin/python -m mypy airflow_provider_dpone dev/tsqldev/tsqldev dev/embedded/dpone_embedded dev/demo/dpone_demo dev/reconcile/dpone_reconcile
	@.venv/bin/python -c "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"

setup:
	@dev/setup

setup-tests:
	@dev/setup tests

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
