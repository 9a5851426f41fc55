"""What pyproject.toml cannot say: kernels in C, loaded by ctypes; where there is no compiler, torch does without."""

from setuptools import Extension, setup

KERNELS = Extension(
    "anyorder.native._kernels",
    ["src/anyorder/native/kernels.c"],
    extra_compile_args=["-O3"],
    optional=True,
)
setup(ext_modules=[KERNELS])
