"""Compiling on the spot: the classes run, the cache is used, and what is wrong is said in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zkconsumer.testing import java_compiler
from zkconsumer.testing.errors import JarError
from zkconsumer.testing.jars import cache_directory, jars_of
from zkconsumer.testing.java import class_path_of, find_java
from zkconsumer.testing.java_compiler import compile_java, compiled

HELLO = """\
public class Hello {
    record Greeting(String text) {}
    public static void main(String[] arguments) {
        System.out.println(new Greeting("grüße " + Helper.whom()).text());
    }
}
"""
HELPER = 'class Helper { static String whom() { return System.getProperty("whom"); } }\n'


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it but the compiler, and sources of our own."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "java-compiler").symlink_to(cache_directory() / "java-compiler")
    jars_of("java-compiler")  # fetched, if it was not there
    monkeypatch.setenv("ZKCONSUMER_CACHE", str(cache))
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "Hello.java").write_text(HELLO)
    (sources / "Helper.java").write_text(HELPER)
    monkeypatch.setattr(java_compiler, "SOURCES", sources)
    return cache


def test_an_error_is_one_line_with_its_place_and_all_of_it_as_a_note(tmp_path: Path) -> None:
    source = tmp_path / "Broken.java"
    source.write_text("class Broken {\n    int number = missing;\n}\n")

    with pytest.raises(JarError) as caught:
        compile_java(source, [], tmp_path / "classes")

    assert str(caught.value) == f"{source} does not compile: line 2: missing cannot be resolved to a variable"
    assert "int number = missing;" in caught.value.__notes__[0]


def test_classes_run_with_those_they_use_and_are_kept(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled("Hello.java", [])

    monkeypatch.setattr(java_compiler, "compile_java", lambda *arguments: pytest.fail("compiled again"))

    assert compiled("Hello.java", []) == first
    assert first.parent == own_cache / "classes"
    assert _output_of(first) == "grüße you\n"


def test_a_change_of_any_source_is_compiled_anew(own_cache: Path) -> None:
    before = compiled("Hello.java", [])
    (java_compiler.SOURCES / "Helper.java").write_text(HELPER.replace("return ", 'return "dear " + '))

    after = compiled("Hello.java", [])

    assert before != after
    assert _output_of(after) == "grüße dear you\n"


def test_each_class_path_has_classes_of_its_own(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_compiler, "compile_java", lambda source, class_path, directory: directory.mkdir())

    folders = {compiled("Hello.java", class_path) for class_path in ([], [Path("a-1.jar")], [Path("a-2.jar")])}

    assert len(folders) == 3


def test_a_broken_source_leaves_nothing_in_the_cache(own_cache: Path) -> None:
    (java_compiler.SOURCES / "Helper.java").write_text("class Helper {}\n")

    with pytest.raises(JarError, match=r"Hello\.java does not compile: line 4: The method whom\(\) is undefined"):
        compiled("Hello.java", [])

    assert list((own_cache / "classes").iterdir()) == []


def test_processes_that_compile_the_same_at_once_do_not_disturb_each_other(own_cache: Path) -> None:
    program = (
        "import sys, pathlib; from zkconsumer.testing import java_compiler as c;"
        "c.SOURCES = pathlib.Path(sys.argv[1]); print(c.compiled('Hello.java', []))"
    )
    command = [sys.executable, "-c", program, str(java_compiler.SOURCES)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]

    outputs = {process.communicate()[0].strip() for process in processes}

    assert [process.returncode for process in processes] == [0, 0]
    (folder,) = outputs
    assert [str(path) for path in (own_cache / "classes").iterdir()] == [folder]
    assert _output_of(Path(folder)) == "grüße you\n"


def test_a_name_that_is_no_source_is_refused_with_those_there_are(own_cache: Path) -> None:
    with pytest.raises(JarError) as caught:
        compiled("Nothing.java", [])

    assert str(caught.value) == "there is no Java source 'Nothing.java': there are Hello.java, Helper.java"


def _output_of(classes: Path) -> str:
    command = [str(find_java()), "-Dwhom=you", "-Dfile.encoding=UTF-8", "-cp", class_path_of([classes]), "Hello"]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
