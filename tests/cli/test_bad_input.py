"""Bad input is refused at the door: one line that names the value, exit code 2, no traceback."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import feddcd
from feddcd._errors import DataError, Diverged, FolderError, PolicyError, SpecError
from feddcd.algorithms import MinibatchSGD
from feddcd.cli._tables import load_job
from feddcd.cli.app import main
from feddcd.federation.site.policy import load_policy
from feddcd.history import History
from slices import sliced

BASE = "--data wine --clients 4 --rounds 4 --certify-every 2 --out out -q"
FILES = {
    "binary.svm": "".join(f"{i % 2} 1:{i} 2:{i * i % 5}\n" for i in range(12)),
    "one-class.svm": "1 1:0.5 2:1\n1 1:1\n1 2:3\n1 1:4\n",
    "bad-token.svm": "1 1:0.5\n0 x:1\n",
    "nan.svm": "1 1:0.5\n0 1:nan\n",
    "empty.svm": "",
    "wide.svm": "1 1:0.5 3:1\n0 1:1\n",
    "unseen.svm": "7 1:0.5\n0 1:1\n",
    "negative.svm": "".join(f"{i - 3} 1:{i} 2:{i * i % 5}\n" for i in range(12)),
    "continuous.svm": "".join(f"{i * 0.37} 1:{i} 2:{i * i % 5}\n" for i in range(120)),
    "not.toml": "data = [[\n",
    "unknown.toml": "datta = 'wine'\n",
    "type.toml": "rounds = 'many'\n",
    "table.toml": "[algorithm]\nname = 'feddcd'\n",
    "nan.toml": "l2 = nan\n",
    "quoted.toml": "rounds = '5'\n",
    "step.toml": "[settings]\nlr = '0.1'\n",
    "open.toml": 'data = "wine\nrounds = 5\n',
    "a-file": "x",
    "folder/notes.txt": "x",
}


@pytest.fixture(autouse=True)
def _files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDDCD_DATA", str(tmp_path / "nowhere"))
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)


def refused(arguments: list[str], capsys, code: int = 2) -> str:
    """The one line that the command leaves on stderr."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    assert stop.value.code == code
    assert out.strip() == ""
    assert re.fullmatch(r"error: [^\n]+\n", err), err
    return err


def case(options: str, message: str):
    return pytest.param(options, message, id=options or "nothing")


CLIENTS = [
    case(
        "--tau 1",
        "must be from 2 to .*; got tau=1, N=4",
    ),
    case(
        "--tau 5",
        "must be from 2 to .*; got tau=5, N=4",
    ),
    case("--tau 0", r"got tau=0, N=4"),
    case("--tau -2", r"got tau=-2, N=4"),
    case("--clients 1", r"a training needs at least 2 clients, got 1"),
    case(
        "--clients 1000",
        "N, the number of clients, must be from 1 to the number of rows, got N=1000, rows=142",
    ),
    case("--clients 0", r"got N=0, rows=142"),
    case("--clients -3", r"got N=-3, rows=142"),
    case("--partition dirichlet=0.3", "'dirichlet=0.3'; write partition dirichlet:0.3$"),
    case("--partition idd", r"unknown partition 'idd'; did you mean 'iid'\?"),
    case("--partition iid:3", r"'iid' has no parameter, got 'iid:3'"),
    case("--partition dirichlet:-1", r"a must be from 1e-6 to 1e6, got a=-1"),
    case(
        "--partition dirichlet:x",
        r"partition 'dirichlet:x': 'x' is not a number; write, for example, dirichlet:0\.3",
    ),
    case(
        "--partition group", "partition 'group' needs groups, but these data have none; try group:1"
    ),
    case(
        "--partition group:99",
        "partition 'group:99': the number of the feature must be from 1 to 13",
    ),
    case(
        "--partition shards --clients 100",
        "partition 'shards' needs at least two rows for each client, got N=100, rows=142",
    ),
    case("--participation unifrom", r"unknown participation 'unifrom'; did you mean 'uniform'"),
    case(
        "--participation everyone --tau 3",
        r"with --participation everyone, all 4 clients take part .*, so --tau 3 cannot be used",
    ),
    case("--participation everyone:3", r"'everyone' has no parameter, got 'everyone:3'"),
    case("--participation available:x", r"'available:x' is not valid; .* available:0.5"),
    case("--participation available:2", r"p must be above 0 and at most 1, got p=2"),
    case("--participation available:0", r"p must be above 0 and at most 1, got p=0"),
    case("--loss 1", r"must be at least 0 and below 1; got loss=1"),
    case("--loss -0.1", r"must be at least 0 and below 1; got loss=-0.1"),
    case("--loss nan", r"the setting 'loss' should be a number, got nan"),
]
MODELS = [
    case("--l2 -1 --algorithm feddcd", r"error: l2 must be a finite number >= 0, got l2=-1$"),
    case("--l2 -1 --algorithm fedavg", r"l2 must be a finite number >= 0, got l2=-1"),
    case("--l2 0 --algorithm feddcd", r"feddcd needs a penalty, .*: set l2 > 0, got l2=0"),
    case(
        "--l2 0 --algorithm accfeddcd",
        r"accfeddcd needs .* got l2=0 .the methods fedqn, fednewton and fedlbfgs also work",
    ),
    case("--l2 0 --algorithm pointsaga", r"pointsaga needs .* got l2=0"),
    case("--l2 nan", r"the setting 'l2' should be a number, got nan"),
    case("--l2 inf", r"l2 must be a finite number >= 0, got l2=inf"),
    case("--model sofmax", r"unknown model 'sofmax'; did you mean 'softmax'\?"),
    case("--model softmax:3", r"'softmax' has no parameter, got 'softmax:3'"),
    case(
        "--model logistic",
        r"wine: logistic needs 2 classes, but there are 3 \(.*2.*\); use softmax",
    ),
    case(
        "--model mlp:abc",
        "mlp:abc: the width of a hidden layer must be a whole number from 1 to 100000; write",
    ),
    case(
        "--model mlp:0",
        "mlp:0: the width of a hidden layer must be a whole number from 1 to 100000; write",
    ),
    case(
        "--model mlp:64x",
        "mlp:64x: the width of a hidden layer must be a whole number from 1 to 100000; write",
    ),
    case(
        "--model mlp:99999999",
        "mlp:99999999: the width of a hidden layer must be a whole number from 1 to 100000; write",
    ),
    case(
        "--model poisson --algorithm fedavg", r"model poisson has no known bound: .* --set lr=0.01"
    ),
    case("--model poisson --algorithm mbsgd", r"mbsgd cannot choose a step size, .* model poisson"),
    case(
        "--model mlp --set solver=saga --set lr=0.1", r"saga works only with linear .* not with mlp"
    ),
    case("--weighting sample", r"unknown weighting 'sample'; did you mean 'samples'\?"),
    case("--dtype flot32", r"unknown dtype 'flot32'; did you mean 'float32'\?"),
    case("--dtype float16", r"unknown dtype 'float16'"),
]
SETTINGS = [
    case("--algorithm feddcd,fedavg", r"use feddcd compare and --algorithm feddcd --algorithm fed"),
    case("--algorithm fedavgg", r"unknown algorithm 'fedavgg'; did you mean 'fedavg'\?"),
    case("--set solver=newtn", r"unknown solver 'newtn'; did you mean 'newton'\?"),
    case("--set etta=1", r"feddcd has no setting 'etta'; did you mean 'eta'\?"),
    case(
        "--bits 8 --set bits=16",
        "setting 'bits' has two values, 16 and 8: give only one of them, with --bits",
    ),
    case(
        "--set eta=1 --set eta=0.5",
        "'eta' has two values, 1 and 0.5: give only one of them, with --set",
    ),
    case(
        "--set lr=1",
        r"the method feddcd has no setting 'lr'; known names: bits, delta,",
    ),
    case(
        "--algorithm fednewton --set eta=1",
        r"fednewton has no setting 'eta'; known names: bits",
    ),
    case("--algorithm fedavg --set option=1", r"fedavg has no setting 'option'"),
    case("--set eta=abc", r"the setting 'eta' should be a finite number > 0, got 'abc'"),
    case("--set eta=true", r"the setting 'eta' should be .* got True"),
    case("--set eta=nan", r"the setting 'eta' should be .* got nan"),
    case("--set eta=0", r"the setting 'eta' should be .* > 0, got 0"),
    case("--set eta=2", r"'eta' must be above 0 and below 2, got eta=2"),
    case("--algorithm accfeddcd --set sets=3", "the setting 'sets' must be 1 or 2, not 3"),
    case("--algorithm accfeddcd --set kappa=2", r"need 0 < kappa <= 1, got kappa=2"),
    case("--algorithm accfeddcd --set r=0", r"the setting 'r' should be .* > 0, got 0"),
    case("--algorithm accfeddcd --set r=2", r"need 0 < r <= 1, got r=2"),
    case(
        "--algorithm accfeddcd --set eta=inf",
        r"the setting 'eta' should be a finite number > 0, got inf",
    ),
    case("--algorithm scaffold --set option=0", r"the setting 'option' should be .* >= 1, got 0"),
    case("--algorithm scaffold --set option=3", "the setting 'option' must be 1 or 2, not 3"),
    case(
        "--algorithm scaffold --set solver=newton",
        r"scaffold needs a solver with steps of a fixed size",
    ),
    case(
        "--algorithm scaffold --set epochs=0",
        r"the setting 'epochs' should be a whole number >= 1, got 0",
    ),
    case("--set start=nowhere", "the setting 'start' must be 'own' or 'model', not 'nowhere'"),
    case("--set start=1", r"the setting 'start' should be a word, got 1"),
    case(
        "--algorithm pointsaga --set rho=-1",
        r"the setting 'rho' should be a finite number > 0, got -1",
    ),
    case(
        "--algorithm pointsaga --set rho=inf",
        r"the setting 'rho' should be a finite number > 0, got inf",
    ),
    case(
        "--algorithm fedavg --set epochs=1.5",
        r"the setting 'epochs' should be a whole number .* got 1.5",
    ),
    case("--algorithm fedavg --set lr=0", r"the setting 'lr' should be a finite number > 0, got 0"),
    case(
        "--algorithm fedavg --set batch_size=0",
        r"the setting 'batch_size' should be .* >= 1, got 0",
    ),
    case(
        "--algorithm mbsgd --set batch_size=0", r"the setting 'batch_size' should be .* >= 1, got 0"
    ),
    case(
        "--set solver=svrg --set batch_size=0", r"the setting 'batch_size' should be .* >= 1, got 0"
    ),
    case(
        "--set solver=gd --set steps=0", r"the setting 'steps' should be a whole number >= 1, got 0"
    ),
    case(
        "--algorithm fedprox --set m=inf",
        r"the setting 'm' should be a finite number >= 0, got inf",
    ),
    case(
        "--algorithm fedprox --set m=-1", r"the setting 'm' should be a finite number >= 0, got -1"
    ),
    case("--set delta=2", r"need 0 < delta < 1, got delta=2"),
    case("--set space=foo", "space must be 'auto', 'samples' or 'parameters', not 'foo'"),
    case("--set eta", "a setting must have the form key=value, not 'eta'"),
    case("--set =1", "a setting must have the form key=value, not '=1'"),
    case("--set eta=", "a setting must have the form key=value, not 'eta='"),
    case("--set eta=[1]", r"the setting 'eta' must be one number or one word, got '\[1\]'"),
    case("--rounds 0", r"rounds must be at least 1, got rounds=0"),
    case("--certify-every 0", r"certify_every must be at least 1, got certify_every=0"),
    case("--target-gap -1", r"target_gap must be above 0, got target_gap=-1"),
    case("--target-gap nan", r"the setting 'target_gap' should be a number, got nan"),
    case("--seed -1", r"need 0 <= seed < 2\*\*31, got seed=-1"),
]
DATA = [
    case("--data wyne", r"'wyne' is neither a data set nor a file; did you mean 'wine'\?"),
    case("--data missing.svm", r"'missing.svm': no such file, and no data set .* this name$"),
    case(
        "--data a9a",
        r"a9a: feddcd did not find the file a9a of this data set\. .* put the file a9a "
        r".* FEDDCD_DATA",
    ),
    case(
        "--data folder",
        "folder: this is a folder, but a LIBSVM file is needed",
    ),
    case("--data empty.svm", r"empty.svm: no rows"),
    case("--data bad-token.svm", "bad-token.svm:2:3: the index is not a whole number .*'x:1'"),
    case("--data nan.svm", r"nan.svm:2:3: the value is not finite"),
    case(
        "--data one-class.svm",
        "one-class.svm: all rows have the label 1, but softmax needs two labels",
    ),
    case(
        "--data continuous.svm",
        (
            r"continuous\.svm: there are 120 different labels, not all of them whole numbers\. "
            "This looks like a continuous target; use --model ridge, or poisson for counts"
        ),
    ),
    case(
        "--data negative.svm --model poisson",
        (
            r"negative\.svm: the model poisson needs targets >= 0, but "
            r"row 0 .counted from 0. has -3\.0"
        ),
    ),
    case(
        "--data binary.svm --test-data negative.svm --model poisson",
        (
            r"binary\.svm: the model poisson needs targets >= 0, but "
            r"test row 0 .counted from 0. has -3\.0"
        ),
    ),
    case("--data binary.svm --test-data missing.svm", r"missing.svm: no such file"),
    case(
        "--data binary.svm --test-data wide.svm",
        r"wide\.svm: the test data have 3 features, but the training data have 2",
    ),
    case(
        "--data binary.svm --test-data unseen.svm",
        r"binary\.svm: the test data have the label 7, but the training data have only 0, 1",
    ),
    case("--test-data binary.svm", r"'wine' has its own test rows, so leave out test='binary.svm'"),
    case("--data synthetic:n=abc", r"n='abc' is not a whole number"),
    case(
        "--data synthetic:n=40,d=900,classes=3,groups=4 --algorithm fednewton",
        r"fednewton keeps a 2700 x 2700 matrix .* at most 2000",
    ),
    case("missing.toml", r"missing.toml: no such file"),
    case("folder", r"folder: cannot be read: Is a directory"),
    case("not.toml", r"not.toml: not a TOML file: .*"),
    case("unknown.toml", r"unknown.toml: unknown setting 'datta'; did you mean 'data'\?"),
    case("type.toml", r"type.toml: the setting 'rounds' should be a whole number, got 'many'"),
    case(
        "table.toml",
        r"table.toml: the setting 'algorithm' should be a text, got \{'name': 'feddcd'\}",
    ),
    case("nan.toml", r"nan.toml: the setting 'l2' should be a number, got nan"),
    case(
        "quoted.toml",
        "quoted.toml: the setting 'rounds' .* a whole number, got '5'; "
        "write the number without quotes",
    ),
    case("step.toml", r"step.toml: lr in .settings. is the text '0.1'; write the number without"),
    case("open.toml", r"open.toml: .*at line 1.*; a closing quote may be missing in this line$"),
]


@pytest.mark.parametrize(("options", "message"), CLIENTS + MODELS + SETTINGS + DATA)
def test_run(options, message, capsys):
    err = refused(["run", *shlex.split(f"{BASE} {options}")], capsys)
    assert re.search(message, err), err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        case(
            "--algorithm feddcd --algorithm feddcd",
            r"at least one algorithm, and each only once; got \['feddcd', 'fed",
        ),
        case("--algorithm feddcd --algorithm fedavgg", r"unknown algorithm 'fedavgg'; did you"),
        case(
            "--algorithm feddcd,fedavg",
            r"repeat --algorithm for each method: --algorithm feddcd --algorithm fedavg; got 'fed",
        ),
        case("--algorithm feddcd --set fedavg.lr=1", r"one of these: feddcd; got 'fedavg.lr=1'"),
        case("--algorithm feddcd --set eta=1", r"algorithm.key=value, .* got 'eta=1'"),
        case("--algorithm feddcd --set feddcd.etta=1", r"feddcd has no setting 'etta'; did you"),
        case("--algorithm feddcd --set feddcd.eta=x", r"the setting 'eta' should be .* got 'x'"),
        case("--algorithm feddcd --algorithm fedavg --l2 0", r"feddcd needs .* got l2=0"),
        case("--algorithm feddcd --tau 9", r"got tau=9, N=4"),
        case(
            "--algorithm fedavg --algorithm giant --tau 3",
            r"the method giant needs all clients .*, but 3 of 4 .*--participation everyone, and "
            r"leave out --tau$",
        ),
        case(
            "--algorithm fedavg --algorithm giant --participation everyone --loss 0.1",
            r"but uploads get lost .loss 0.1.: set --loss 0$",
        ),
        case("--algorithm feddcd --data missing.svm", r"'missing.svm': no such file"),
        case("--algorithm feddcd --bits 7", "setting 'bits' must be 8, 16, 32 or 64, got bits=7"),
        case("--algorithm feddcd --out a-file", r"a-file is a file, not a folder"),
        case("missing.toml", r"missing.toml: no such file"),
        case("unknown.toml", r"unknown.toml: unknown setting 'datta'"),
    ],
)
def test_compare(options, message, capsys):
    arguments = ["compare", *shlex.split(f"{BASE} {options}")]
    assert re.search(message, refused(arguments, capsys))
    # a mistake does not occupy the folder: the same command is refused for the same reason
    assert re.search(message, refused(arguments, capsys))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        case("run --resume nowhere", "nowhere: no such run folder"),
        case("run --resume a-file", "a-file: no such run folder"),
        case("run --resume folder", r"folder is not a run folder: .*config.toml: no such file"),
        case(
            "run --resume folder --tau 3",
            r"--resume uses the settings of the earlier run, so leave out --tau",
        ),
        case("run --resume folder --set eta=1", r"leave out --set"),
        case("run --resume folder --out x", r"leave out --out"),
        case("run type.toml --resume folder", r"leave out the config file type.toml"),
        case(
            "run --resume folder --test-data x --certify-every 2", r"--test-data, --certify-every"
        ),
        case("run -q --data wine --clients 4 --out a-file", r"a-file is a file, not a folder"),
        case("compare --resume nowhere", r"nowhere is not a folder of feddcd compare"),
        case("compare --resume folder", r"folder is not a folder of feddcd compare: .* is missing"),
        case("compare --resume folder --algorithm fedavg", r"leave out --algorithm"),
        case("compare --resume folder --seed 1", r"leave out --seed"),
        case("report nowhere", "nowhere: no such run folder"),
        case(
            "report folder",
            r"the folder folder contains no run: feddcd found no config.toml in this folder, or in "
            r"the folders inside it",
        ),
        case(
            "list algorithm",
            r"there is no list 'algorithm'; the lists are algorithms, data, models",
        ),
        case("demo --out folder", r"folder exists, but feddcd demo did not make it: choose"),
    ],
)
def test_folders(arguments, message, capsys):
    err = refused(shlex.split(arguments), capsys)
    assert re.search(message, err), err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        case("run --rounds x", r"--rounds must be a whole number, got 'x'; .* --rounds 100\n"),
        case("run --l2 much", r"--l2 must be a number, got 'much'; for example --l2 0.001\n"),
        case("run --target-gap 1%", r"got '1%'; for example --target-gap 0.01\n"),
        case("run --target-gap=", r"got ''; for example --target-gap 0.01\n"),
        case("compare --loss=0,1 --l2 1", r"^error: --loss must be .*, got '0,1'; .* --loss 0.1\n"),
        case("race --seeds two", r"--seeds must be a whole number, got 'two'; .* --seeds 3\n"),
        case("glm a.csv --tol x", r"--tol must be a number, got 'x'; for example --tol 1e-06\n"),
        case("codebook a.csv --cap-rare 1.5", r"got '1.5'; for example --cap-rare 10\n"),
        case("codebook a.csv --cap-rare -1", r"--cap-rare.*-1 is not in the range"),
        case(
            "run --tau 0.3", r"must be a whole number, got '0.3'; .* --tau 6\. .*not a share of the"
        ),
        case("theory --tau 0.3", r"must be a whole number, got '0.3'; .*not a share of the"),
        case("run --frobnicate", r"--frobnicate"),
        case("frobnicate", r"frobnicate"),
        case("report", r"(?i)missing argument"),
    ],
)
def test_usage(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(arguments))
    err = capsys.readouterr().err
    assert stop.value.code == 2
    assert re.search(message, err)
    assert "Traceback" not in err


X, Y = np.random.default_rng(0).standard_normal((12, 3)), np.arange(12) % 2
SPLIT = [np.arange(0, 4), np.arange(4, 8), np.arange(8, 12)]


def spoiled(value: float, row: int, column: int) -> np.ndarray:
    bad = X.copy()
    bad[row, column] = value
    return bad


def run(data=(X, Y), **options):
    return feddcd.run(data, **{"clients": 3, "rounds": 2, **options})


ARRAYS = {
    "nan in X": (lambda: run((spoiled(np.nan, 7, 2), Y)), r"X has nan at row 7, column 2"),
    "inf in X": (lambda: run((spoiled(np.inf, 1, 0), Y)), r"X has inf at row 1, column 0"),
    "nan in sparse X": (
        lambda: run((sparse.csr_array(spoiled(np.nan, 5, 1)), Y)),
        r"X has nan at row 5, column 1",
    ),
    "nan in y": (lambda: run((X, np.where(Y.cumsum() == 3, np.nan, Y))), r"y has nan at row 5"),
    "short y": (lambda: run((X, Y[:-1])), r"y must have shape \(12,\).* got \(11,\)"),
    "flat X": (lambda: run((Y, Y)), r"two dimensions.* got shape \(12,\)"),
    "no rows": (lambda: run((X[:0], Y[:0])), r"at least one row.* got shape \(0, 3\)"),
    "words in X": (lambda: run(([["a"]], [1])), r"X must be numbers"),
    "one class": (
        lambda: run((X, 0 * Y)),
        "arrays from Python: all rows have the label 0, but softmax needs two labels",
    ),
    "three classes": (
        lambda: run((X, np.arange(12) % 3), model="logistic"),
        r"arrays from Python: logistic needs 2 classes, but there are 3 \(0, 1, 2\); use softmax",
    ),
    "negative counts": (
        lambda: run((X, -Y), model="poisson"),
        (
            r"arrays from Python: the model poisson needs targets >= 0, but "
            r"row 1 .counted from 0. has -1\.0"
        ),
    ),
    "empty client": (
        lambda: run(parts=[np.arange(12), np.arange(0)]),
        r"parts\[1\] must be a list of at least one row number",
    ),
    "no clients": (lambda: run(parts=[]), r"12 rows are in no part; the first is row 0"),
    "one client": (
        lambda: run(parts=[np.arange(12)]),
        r"a training needs at least 2 clients, got 1",
    ),
    "names alone": (
        lambda: run(names=["a", "b"]),
        r"leave out the argument 'names' \(of the clients\): you can give names only with a "
        "problem, with parts or with a list of tables",
    ),
    "row twice": (
        lambda: run(parts=[np.arange(8), np.arange(7, 12)]),
        r"row 7 occurs 2 times in the argument 'parts', but each",
    ),
    "row left out": (
        lambda: run(parts=[np.arange(5), np.arange(7, 12)]),
        "2 rows are in no part; the first is row 5",
    ),
    "row too large": (
        lambda: run(parts=[np.arange(6), np.arange(6, 13)]),
        r"parts\[1\] contains row 12, but the data have only the rows 0 to 11",
    ),
    "row negative": (
        lambda: run(parts=[np.arange(6), np.arange(-1, 12)]),
        r"parts\[1\] contains row -1",
    ),
    "fractional rows": (
        lambda: run(parts=[np.arange(6.0), np.arange(6, 12)]),
        r"parts\[0\] must be a list of at least one row number.* float64",
    ),
    "one column for each class": (
        lambda: run((X, np.eye(2)[Y])),
        r"arrays from Python: y must have shape \(12,\).* \(12, 2\)\. If .* y\.argmax\(axis=1\)",
    ),
    "tau of parts": (lambda: run(parts=SPLIT, tau=4), r"got tau=4, N=3"),
    "X alone": (
        lambda: run(X),
        (
            r"data is of type ndarray, but must be a name, a path, a Dataset, a pair \(X, y\) or a "
            "data frame. For several clients, give a list or dict with one pair or data frame for "
            "each client"
        ),
    ),
    "share as tau": (
        lambda: run(tau=0.3),
        r"tau is the number .* not a share of the clients: .* got tau=0.3",
    ),
    "type of tau": (lambda: run(tau=2.0), r"the setting 'tau' should be a whole number, got 2.0"),
    "type of l2": (lambda: run(l2="1"), r"the setting 'l2' should be a number, got '1'"),
    "type of rounds": (
        lambda: run(rounds=True),
        r"the setting 'rounds' should be a whole number, got True",
    ),
    "list as setting": (
        lambda: run(settings={"eta": [1]}),
        r"the setting 'eta' should be .* got \[1\]",
    ),
    "no algorithms": (
        lambda: feddcd.compare((X, Y), algorithms=[]),
        r"at least one algorithm, .*; got \[\]",
    ),
    "an algorithm alone": (
        lambda: feddcd.compare((X, Y), algorithms="fedavgg"),
        r"unknown algorithm 'fedavgg'; did you mean 'fedavg'",
    ),
    "settings of another": (
        lambda: feddcd.compare((X, Y), algorithms=["feddcd"], settings={"fedavg": {"lr": 1}}),
        "settings has an entry for 'fedavg', but this comparison runs only 'feddcd'",
    ),
    "missing folder": (lambda: feddcd.resume("nowhere"), "nowhere: no such run folder"),
}


@pytest.mark.parametrize(("call", "message"), ARRAYS.values(), ids=ARRAYS)
def test_arrays(call, message):
    with pytest.raises((DataError, SpecError, FolderError, ValueError), match=message):
        call()


def test_dataset_refuses_half_a_test_set():
    with pytest.raises(
        DataError, match="made: give both X_test and y_test, or leave out both; got only one"
    ):
        feddcd.Dataset("made", X, Y, X_test=X)
    with pytest.raises(DataError, match="X has 3 features, but X_test has 2"):
        feddcd.Dataset("made", X, Y).with_test(X[:, :2], Y)


def test_numbers_of_numpy_are_numbers():
    spec = feddcd.Spec(clients=np.int64(4), l2=np.float32(0.5), seed=np.uint8(3))
    assert spec == feddcd.Spec(clients=4, l2=0.5, seed=3)


@pytest.mark.chaos
def test_fednewton_needs_no_penalty():
    result = run(algorithm="fednewton", l2=0.0, tau=3, rounds=12, certify_every=12)
    # at the optimum of the unpenalised likelihood, X'(p - y) = 0 over clients of equal size
    z = X @ result.model
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert np.abs(X.T @ (p - np.eye(2)[Y])).max() < 1e-6
    assert result.summary["certified_gap"] is None


def test_a_folder_that_holds_a_run_is_kept(capsys, monkeypatch):
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])  # others look at pictures
    arguments = ["run", *shlex.split(BASE), "--algorithm", "mbsgd"]
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    assert "the folder out already contains a run. Continue this run with --resume out" in refused(
        arguments, capsys
    )
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before


@pytest.mark.parametrize("algorithm", sliced(["fedavg", "mbsgd"], {"mbsgd"}))
def test_divergence_names_the_round_and_keeps_the_rest(algorithm, capsys):
    options = f"{BASE} --model ridge --algorithm {algorithm} --set lr=1e6 --rounds 60"
    err = refused(["run", *shlex.split(options)], capsys, code=1)
    found = re.search(
        rf"{algorithm}: the objective is not finite after round (\d+); "
        r"the folder 'out' has the earlier rounds",
        err,
    )
    assert found, err
    history = History.load(Path("out/history.csv"))
    assert history.rounds == int(found[1]) - 1
    assert np.isfinite(history["objective"]).all()
    if algorithm == "mbsgd":
        assert history.rounds > 5


def test_divergence_is_an_exception_in_python():
    with pytest.raises(Diverged, match=r"mbsgd: .* not finite after round \d+\. A smaller step"):
        run(algorithm="mbsgd", model="ridge", settings={"lr": 1e9}, rounds=100)


@pytest.mark.chaos
def test_huge_features_give_finite_numbers():
    rng = np.random.default_rng(1)
    rows = 1e6 * rng.standard_normal((40, 3))
    data = (rows, (rows[:, 0] > 0).astype(float))
    result = feddcd.run(data, clients=4, rounds=4, certify_every=2, l2=1e-9, algorithm="feddcd")
    assert np.isfinite(result.history["objective"]).all()
    assert np.isfinite(result.model).all()
    assert result.certificate.lower_bound <= result.certificate.objective


def test_an_algorithm_object_is_not_resumed_as_another(tmp_path):
    """The folder's config.toml can only name an object, parts or arrays: resuming says so."""
    options = {"clients": 4, "rounds": 2, "certify_every": 2}
    feddcd.run("wine", algorithm=MinibatchSGD(lr=0.1), out=tmp_path / "a", **options)
    with pytest.raises(
        FolderError, match=r"objects from Python .algorithm.* again.*algorithm=\.\.\."
    ):
        feddcd.resume(tmp_path / "a", rounds=4)
    other = MinibatchSGD(lr=0.2)
    changed = r"other data, with other parts \(.*\) or with another algorithm object"
    with pytest.raises(FolderError, match=changed):
        feddcd.resume(tmp_path / "a", rounds=4, algorithm=other)
    n = len(feddcd.load("wine").y)
    rows = np.array_split(np.arange(n), 4)
    feddcd.run("wine", algorithm="mbsgd", parts=rows, out=tmp_path / "b", **options)
    with pytest.raises(FolderError, match=r"objects from Python .parts.* again.*parts=\.\.\."):
        feddcd.resume(tmp_path / "b", rounds=4)
    with pytest.raises(FolderError, match=changed):
        feddcd.resume(tmp_path / "b", rounds=4, parts=rows[::-1])


GLM = "[glm]\nformula = 'y ~ x'\n"
CODED = "[glm.codebook.columns.x]\ntype = 'number'\n"
TOML = {
    "arrays": (GLM + "l2 = " + "[" * 9000 + "]" * 9000, "nested too deeply"),
    "tables": (GLM + "l2 = " + "{a=" * 3000 + "1" + "}" * 3000, "nested too deeply"),
    "dotted": ("a" + ".a" * 3000 + " = 1", "nested too deeply"),
    "digits": (GLM + "l2 = " + "9" * 5000, "not a TOML file"),
    "integer": (GLM + "tol = " + "9" * 400, "glm.tol is a whole number that is too large"),
    "classes": (
        GLM + "classes = 1",
        (
            "job.toml: glm: classes must be a list of different words or numbers, for example "
            "['a', 'b']; got 1"
        ),
    ),
    "nested": (
        GLM + "classes = [[1]]",
        (
            "job.toml: glm: classes must be a list of different words or numbers, for example "
            "['a', 'b']; got [[1]]"
        ),
    ),
    "nan": (
        GLM + "classes = [nan]",
        (
            "job.toml: glm: classes must be a list of different words or numbers, for example "
            "['a', 'b']; got [nan]"
        ),
    ),
    "date": (
        GLM + "classes = [1979-05-27]",
        (
            "job.toml: glm: classes must be a list of different words or numbers, for example "
            "['a', 'b']; got [datetime.date(1979, 5, 27)]"
        ),
    ),
    "twice": (
        GLM + "classes = ['a', 'a']",
        (
            "job.toml: glm: classes must be a list of different words or numbers, for example "
            "['a', 'b']; got ['a', 'a']"
        ),
    ),
    "levels": (
        GLM + "levels = {x = [nan, 1]}",
        (
            "job.toml: glm: levels of 'x' must be a list of different words or numbers, for "
            "example ['a', 'b']; got [nan, 1]"
        ),
    ),
    "days": (
        GLM + "levels = {x = [1979-05-27]}",
        (
            "job.toml: glm: levels of 'x' must be a list of different words or numbers, for "
            "example ['a', 'b']; got [datetime.date(1979, 5, 27)]"
        ),
    ),
    "analysis": (GLM + "analysis = ['regression']", "no analysis ['regression']"),
    "no l2": (GLM + "l2 = nan", "glm: l2 must contain finite numbers >= 0, got nan"),
    "day l2": (GLM + "l2 = 1979-05-27", "glm: l2 must contain finite numbers >= 0"),
    "l2 by name": (GLM + "l2 = {x = inf}", "glm: l2 must contain finite numbers >= 0, got inf"),
    "event": (GLM + "event = nan", "event must be a value of the outcome, got nan"),
    "family": (GLM + "family = ['binomial']", "family must be one of"),
    "link": (
        GLM + "link = ['logit']",
        (
            "job.toml: glm: for family binomial, link must be one of logit, probit, cloglog, "
            "log, cauchit; got ['logit']"
        ),
    ),
    "weight": (GLM + "weight = ['w']", "glm: the setting 'weight' must be the name of a column"),
    "range": (
        GLM + CODED + "range = [0, inf]",
        (
            "job.toml: glm: codebook: the column 'x': range must be [smallest, largest], for "
            "example [0, 120]; got (0, inf)"
        ),
    ),
    "no range": (
        GLM + CODED + "range = [nan, 1]",
        (
            "job.toml: glm: codebook: the column 'x': range must be [smallest, largest], for "
            "example [0, 120]; got (nan, 1)"
        ),
    ),
    "null": (GLM + 'codebook = "\\u0000"', "cannot be read"),
    "device": (
        GLM + 'codebook = "/dev/zero"',
        "/dev/zero: this is not a regular file",
    ),
    "folder": (GLM + 'codebook = "."', "job.toml: .: cannot be read: Is a directory"),
    "large": (
        GLM + 'codebook = "large.toml"',
        "large.toml: this file is too large: it has more than 10 MB",
    ),
}


@pytest.mark.parametrize(("text", "message"), TOML.values(), ids=TOML)
def test_job_files(text, message, capsys):
    Path("job.toml").write_text(text)
    if "large" in text:
        with Path("large.toml").open("wb") as file:
            file.truncate(10_000_001)
    told = refused(["federation", "init", "fed", "--job", "job.toml"], capsys)
    assert message in told
    assert "job.toml: " in told
    assert len(told) < 400
    assert not Path("fed").exists()


@pytest.mark.parametrize("text", [TOML[name][0] for name in ("arrays", "dotted", "digits")])
@pytest.mark.parametrize("name", ["federation.toml", "sites/site-1/site.toml"])
def test_files_of_a_federation(name, text, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["federation", "init", "fed", "--sites", "2"])
    capsys.readouterr()
    Path("fed", name).write_text(text)
    assert name in refused(["federation", "simulate", "fed"], capsys)


def test_a_policy_that_is_too_much_stops_everything(tmp_path):
    for text, message in (TOML[name] for name in ("arrays", "dotted", "digits")):
        (tmp_path / "policy.toml").write_text(text + "\ncomplete = true\n")
        with pytest.raises(PolicyError, match=message):
            load_policy(tmp_path / "policy.toml")


def test_a_plan_with_dates_can_be_sent():
    """TOML's own dates in a codebook's range become words."""
    Path("job.toml").write_text(
        GLM + CODED + "[glm.codebook.columns.d]\ntype = 'date'\nrange = [1979-05-27, 1980-01-01]"
    )
    plan = load_job(Path("job.toml"))
    assert plan.codebook["columns"]["d"]["range"] == ["1979-05-27", "1980-01-01"]
    json.dumps(plan.to_dict(), allow_nan=False)
