"""Grids keep what XLA compiles."""

import os

import jax

from feddcd.cli._programs import FOLDER, keep_programs


def test_programs_are_kept_for_this_process_and_those_it_starts(monkeypatch, tmp_path):
    told = {}
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    monkeypatch.setenv(FOLDER, "")
    monkeypatch.chdir(tmp_path)
    keep_programs(tmp_path.relative_to(tmp_path) / "programs")
    assert os.environ[FOLDER] == str(tmp_path / "programs")  # wherever a process starts
    assert told == {"jax_compilation_cache_dir": str(tmp_path / "programs")}


def test_a_folder_that_the_user_named_stays(monkeypatch, tmp_path):
    told = {}
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    monkeypatch.setenv(FOLDER, "elsewhere")
    keep_programs(tmp_path)
    assert os.environ[FOLDER] == "elsewhere"
    assert not told
