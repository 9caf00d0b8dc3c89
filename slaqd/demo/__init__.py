"""The demo: real trainings on this machine, under fair share and under SLAQ."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment that holds numpy's linear algebra to one thread; read when numpy is imported."""
