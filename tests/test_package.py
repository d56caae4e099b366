"""The rules of the house: what imports what, and what an import costs."""

import ast
import doctest
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import spear_ray

PACKAGE = Path(spear_ray.__file__).parent
ROOT = PACKAGE.parent
MODULES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
HEAVY = {"torch", "ray", "numpy", "scipy", "pandas", "pyarrow", "transformers", "vllm", "onnxruntime", "silero_vad"}
DECODERS = {"soundfile", "soxr", "torchcodec", "torchaudio", "librosa", "wave"}


def loaded_by(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after some code."""
    script = f"import sys\n{code}\nprint('\\n'.join({{name.split('.')[0] for name in sys.modules}}), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def imports(path: Path, top_level_only: bool = False) -> set[str]:
    """First names of all that a module imports, wherever in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").split(".")[0])
    return found


def importers(names: set[str]) -> set[str]:
    return {name for name, path in MODULES.items() if imports(path) & names}


def test_importing_the_package_imports_nothing_heavy():
    loaded = loaded_by("import spear_ray")
    assert "spear_ray" in loaded
    assert not loaded & HEAVY


def test_help_imports_nothing_heavy():
    loaded = loaded_by("import spear_ray.cli as cli\nassert cli.run(['--help']) == 0")
    assert "spear_ray" in loaded
    assert not loaded & (HEAVY | DECODERS | {"omegaconf", "rich", "s3fs"})


def test_configuration_is_read_without_a_model_library():
    loaded = loaded_by("from spear_ray.config import load\nload([])")
    assert not loaded & {"torch", "ray", "transformers", "vllm", "onnxruntime", "silero_vad"}


def test_the_command_prints_its_help():
    command = Path(sys.executable).with_name("spear-ray")
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    assert "usage: spear-ray COMMAND" in done.stdout
    assert done.stderr == ""


def test_only_the_pipeline_imports_ray():
    assert importers({"ray"}) == {"pipeline.py"}


def test_no_room_below_the_pipeline_imports_it():
    above = {"pipeline.py", "bench.py", "cli.py"}
    for name, path in MODULES.items():
        if name not in above and not name.startswith("progress"):
            assert "spear_ray.pipeline" not in path.read_text(encoding="utf-8"), name


def test_only_audio_decodes():
    assert importers(DECODERS - {"librosa", "wave"}) == {"audio.py", "sample/make.py"}
    # a spectrogram for DNSMOS, voices that are changed, files for a server: not for decoding
    assert importers({"librosa"}) == {"networks/dnsmos.py", "triples.py"}
    assert importers({"wave"}) == {"pcm.py", "sample/make.py"}


@pytest.mark.parametrize(
    "name", sorted(name for name in MODULES if name.split("/")[0] in ("scorers", "networks", "judging"))
)
def test_models_load_when_a_scorer_is_set_up(name):
    heavy = {"torch", "torchaudio", "transformers", "vllm", "onnxruntime", "silero_vad", "ray"}
    assert name.startswith("networks") or not imports(MODULES[name], top_level_only=True) & heavy


@pytest.mark.parametrize("path", sorted((ROOT / "jobs").glob("*.py")), ids=lambda path: path.name)
def test_a_job_is_a_page_without_logic_of_its_own(path):
    assert len(path.read_text().splitlines()) <= 60
    assert imports(path) <= {"__future__", "pathlib", "spear_ray", "sys"}


@pytest.mark.parametrize("name", ["spear_ray.timing.segments", "spear_ray.ledger"])
def test_examples_in_docstrings_are_true(name):
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_version_is_that_of_the_project_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == spear_ray.__version__
