"""Edits of a Python experiment: what a variant does changes only with its source."""

import ast
import re
from types import SimpleNamespace

import pytest

from profiler.planning.function_sources import measured_sources
from profiler.planning.spec import ModuleWorkload
from profiler.sessions.sources import source_hashes

HEAD = """
import enum, functools, os, torch
from profiler import Experiment
e = Experiment("x", problems={"n": [64]})
@e.inputs
def inputs(n): return torch.randn(n)
@e.variant(baseline=True)
def base(x): return x
"""
EDITS = """
## walrus
(BLOCK := 6«4|5»)
@e.variant
def own(x): return x*BLOCK

## async
async def go(x): return x*«2|3»
@e.variant
def own(x):
    import asyncio
    return asyncio.run(go(x))

## the else of a main guard
if __name__ == '__main__':
    print(1)
else:
    torch.a = «2|3»
@e.variant
def own(x): return x

## a guard against main
if __name__ != '__main__':
    torch.a = «2|3»
@e.variant
def own(x): return x

## subclass registry
class K:
    all = {}
    def __init_subclass__(cls): K.all[cls.__name__] = cls
class Fast(K):
    def run(self, x): return x*«2|3»
@e.variant
def own(x): return K.all['Fast']().run(x)

## subclasses
class K: pass
class Fast(K):
    def run(self, x): return x*«2|3»
@e.variant
def own(x): return K.__subclasses__()[0]().run(x)

## imported registry base
from helpers import Base, get
class Fast(Base):
    def run(self, x): return x*«2|3»
@e.variant
def own(x): return get('Fast')().run(x)

## a context variable
from contextvars import ContextVar
B = ContextVar('b')
B.set(6«4|5»)
@e.variant
def own(x): return x*B.get()

## own decorator kernel
T = {}
def kernel(f):
    T[f.__name__] = f
    return f
@kernel
def fast(x): return x*«2|3»
@e.variant
def own(x): return T['fast'](x)

## imported decorator kernel
from helpers import kernel, run
@kernel
def fast(x): return x*«2|3»
@e.variant
def own(x): return run('fast', x)

## operator registry
from helpers import T
def fast(x): return x*«2|3»
T << fast
@e.variant
def own(x): return T['fast'](x)

## class body
class Setup:
    torch.backends.x = 6«4|5»
@e.variant
def own(x): return x

## class body call
class Setup:
    torch.set_num_threads(«2|3»)
@e.variant
def own(x): return x

## a global that another variant sets
M = 1
def tune():
    global M
    M = «2|3»
@e.variant
def own(x): return x*M
@e.variant
def two(x):
    tune()
    return x

## an element that another variant sets
M = {}
@e.variant
def two(x):
    M['k'] = «2|3»
    return x
@e.variant
def own(x): return x*M.get('k', 1)

## a mapping that another variant updates
M = {}
@e.variant
def two(x):
    M.update(k=«2|3»)
    return x
@e.variant
def own(x): return x*M.get('k', 1)

## an attribute that another variant sets
def f(x): return x*f.k
f.k = 1
@e.variant
def two(x):
    f.k = «2|3»
    return x
@e.variant
def own(x): return f(x)

## locals
def fast(x): return x*«2|3»
T = locals()
@e.variant
def own(x): return T['fast'](x)

## globals of a function
def fast(x): return x*«2|3»
@e.variant
def own(x): return own.__globals__['fast'](x)

## import_module
from importlib import import_module
def fast(x): return x*«2|3»
@e.variant
def own(x): return import_module(__name__).fast(x)

## an attribute of a function
@e.variant
def own(x): return x*own.block
own.block = 6«4|5»

## for names
for BLOCK in (32, 6«4|5»): pass
@e.variant
def own(x): return x*BLOCK

## match
match 1:
    case BLOCK: W = 6«4|5»
@e.variant
def own(x): return x*W

## dataclass field
import dataclasses
@dataclasses.dataclass
class C:
    k: int = «2|3»
@e.variant
def own(x): return x*C().k

## names that the module makes
def __getattr__(n): return «2|3»
import mine
@e.variant
def own(x): return x*mine.k

## if branch
if torch.cuda.is_available():
    K = 1
else:
    K = «2|3»
@e.variant
def own(x): return x*K

## a decorator of the file
def twice(f): return lambda x: f(x)*«2|3»
@e.variant
@twice
def own(x): return x

## a decorator above that of the experiment
def twice(f, k=«1|2»): return f
@twice
@e.variant
def own(x): return x

## lambda variant
K = «2|3»
e.variant(name='own')(lambda x: x*K)

## monkeypatch by setattr in decorator
class F: pass
def patch(c):
    def d(f):
        setattr(c, f.__name__, f)
        return f
    return d
@patch(F)
def run(self, x): return x*«2|3»
@e.variant
def own(x): return F().run(x)

## enum
class M(enum.Enum):
    A = «2|3»
@e.variant(m=[M.A])
def own(x, m): return x*m.value

## metaclass
T = {}
class Meta(type):
    def __init__(c, n, b, d): T[n] = c
class Fast(metaclass=Meta):
    def run(self, x): return x*«2|3»
@e.variant
def own(x): return T['Fast']().run(x)

## default with walrus
def f(x, k=(K := «4|5»)): return x*k
@e.variant
def own(x): return x*K

## singledispatch
@functools.singledispatch
def f(x): return x
@f.register
def _(x: torch.Tensor): return x*«2|3»
@e.variant
def own(x): return f(x)

## harmless callback
T = {}
def reg(f):
    T[f.__name__] = f
    return 0
def fast(x): return x*«2|3»
L = sorted([fast], key=reg)
@e.variant
def own(x): return T['fast'](x)

## comprehension walrus
L = [BLOCK := b for b in (32, 6«4|5»)]
@e.variant
def own(x): return x*BLOCK

## annotation string
class Cfg:
    k = «2|3»
def f(c: 'Cfg'): return c.k
@e.variant
def own(x):
    import typing
    return x*typing.get_type_hints(f)['c'].k

## torch.library string
@torch.library.custom_op('m::f', mutates_args=())
def f(x: torch.Tensor) -> torch.Tensor: return x*«2|3»
@f.register_fake
def _(x): return x
@e.variant
def own(x): return torch.ops.m.f(x)

## a base class, and a method of it
class A:
    def factor(self): return «2|3»
class B(A): pass
@e.variant
def own(x): return x * B().factor()

## a first variant is the baseline of another experiment
d = Experiment("second", problems={"n": [1]})
@d.variant
def first(x): return x * «2|3»
@d.variant
def own(x): return x

## values of problems: a function
def relu(x): return x * «2|3»
CHOICES = {"act": [relu]}
d = Experiment("second", problems=CHOICES)
@d.variant
def own(x, act): return act(x)

## values of problems: an enumeration
class Mode(enum.Enum):
    FAST = «2|3»
d = Experiment("second", problems={"mode": list(Mode)})
@d.variant
def own(x, mode): return x * mode.value
"""
"""What else stands in the file: «before|after» an edit, which changes the variant `own`."""
OTHERS = """
## a compiled variant
@e.variant
@torch.compile
def other(x): return x * «2|3»

## a module
class Other(torch.nn.Module):
    @torch.no_grad()
    def forward(self, x): return x * «2|3»
@e.variant(setup=True)
def other(x): return functools.partial(Other(), x)

## a kernel of Triton
import triton
@triton.jit
def kernel(x): return x * «2|3»
@e.variant
def other(x): return kernel[(1,)](x)

## a function of autograd
class Other(torch.autograd.Function):
    @staticmethod
    def forward(context, x): return x * «2|3»
@e.variant
def other(x): return Other.apply(x)

## a configuration
from dataclasses import dataclass, field
@dataclass(frozen=True)
class Config:
    blocks: list = field(default_factory=list)
    factor: int = «2|3»
@e.variant
def other(x): return x * Config().factor

## a size
SIZES = [{"n": n} for n in (64, «128|256»)]
d = Experiment("second", problems=SIZES)

## only when it is a script
if __name__ == "__main__":
    print(e.run(quiet=«True|False»))
"""
"""Edits that change another variant, or none."""
PLAIN = """
import torch
def _softmax(x): return x
def inputs(n=[64]): return torch.randn(n)
PLAIN
def own(x): return x
"""


EDITED = re.compile(r"«(.*?)\|(.*?)»")


def cases(text):
    parts = (part.partition("\n") for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:])
    return [pytest.param(body, id=title.replace(" ", "-")) for title, _, body in parts]


def own_source_changes(text):
    before, after = (EDITED.sub(rf"\{i}", text) for i in (1, 2))
    assert before != after
    old, new = (measured_sources(ast.parse(each), ["own"])["own"] for each in (before, after))
    return old != new


@pytest.mark.parametrize("body", cases(EDITS))
def test_an_edit_of_what_a_variant_depends_on_changes_its_source(body):
    assert own_source_changes(HEAD + body)


@pytest.mark.parametrize("body", cases(OTHERS))
def test_an_edit_of_another_variant_does_not(body):
    assert not own_source_changes(f"{HEAD}{body}\n@e.variant\ndef own(x): return x\n")


@pytest.mark.parametrize("plain", ["def plain(x): return x * «2|3»", "plain = lambda x: x * «2|3»"])
def test_the_first_public_function_of_a_file_of_functions_is_the_baseline(plain):
    assert own_source_changes(PLAIN.replace("PLAIN", plain))


def test_the_docstring_of_a_file_may_be_a_source():
    file = f'"""K = «2|3»"""\n{HEAD}\n@e.variant\ndef own(x): return x * int(__doc__[4:])\n'
    assert own_source_changes(file)


@pytest.mark.parametrize("helper", ["import mine", "from helpers_of import mine", ""])
def test_a_file_that_another_imports_counts_whole(tmp_path, helper):
    (tmp_path / "helpers.py").write_text(helper)
    (tmp_path / "helpers_of.py").write_text("import mine" if helper else "")
    file = f"{HEAD}\nimport helpers\ndef fast(x): return x * «2|3»\n"
    experiment = SimpleNamespace(workload=ModuleWorkload(module="./mine.py"))
    cell = SimpleNamespace(id="own", variant=SimpleNamespace(params={"function": "base"}))
    hashes = set()
    for i in (1, 2):
        (tmp_path / "mine.py").write_text(EDITED.sub(rf"\{i}", file))
        hashes.add(source_hashes(experiment, tmp_path, [cell])["own"])
    assert len(hashes) == (2 if helper else 1)
