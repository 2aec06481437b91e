"""The in-process seat: what is done so that a candidate beside pytest cannot decide its own verdict unseen.

One `Guard` per run. It keeps the suite's text in memory, knows what pytest was like before the candidate,
puts canaries among the tests, and looks at three moments whether anything has been changed: when all is
collected, at tests chosen by chance, and at the end. What it finds travels as events of kind `integrity`:
`findings` are proof, `suspicions` are not.
"""

from __future__ import annotations

import ast
import base64
import builtins
import itertools
import operator
import os
import random
import re
import sys
import types

import pytest
from _pytest.assertion import rewrite

from . import assembly, blueprint, canaries, child, importer, inventory, pristine, served, watch
from .equality import Equality, Fresh
from .installed import has_other_plugins
from .ownership import Ownership, file_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from .child import Channel
    from .failures import Describer

MOST = 20
MANY = 10
"""With so many tests it also looks between two of them, at a moment chosen by chance."""
_OWN_HOOKS = (
    *("pytest_addoption", "pytest_configure", "pytest_unconfigure", "pytest_generate_tests", "pytest_addhooks"),
    *("pytest_sessionstart", "pytest_report_header", "pytest_make_parametrize_id"),
)
"""Hooks that a suite may have without noticing that there are canaries."""
_BUILT_IN = frozenset(vars(builtins))
_OF_ITEMS = frozenset(("runtest", "setup", "teardown", "repr_failure", "ihook"))
"""What a test's class says, and no test for itself."""
_ALWAYS = ("_pytest", "pluggy", "pytest", "builtins", "os", "re", "reproof_guest")
_DECIDING = ("pytest_plugins", "__test__", "pytestmark")
"""Names of a test module by which pytest decides what to run."""


_belongs_to = operator.attrgetter("session", "config", "parent")
_SPOKEN_OF = re.compile(rb"\b([A-Za-z_]\w*)\.([A-Za-z_]\w*)")
_TRACES = re.compile(rb"settrace|setprofile|coverage")
_READS_ROWS = re.compile(rb"marker|pytestmark|metafunc|globals|__dict__|\bvars\b|getattr|pytest_\w+\(")
_SPEAKS_OF_HOOKS = re.compile(rb"\bpytest_[a-z]|\bregister\b|\bimport \*")
_FIXTURES = {
    b"capsys": ("_pytest.capture", "CaptureFixture"),
    b"capfd": ("_pytest.capture", "CaptureFixture"),
    b"caplog": ("_pytest.logging", "LogCaptureFixture"),
    b"warns": ("_pytest.recwarn", "WarningsChecker"),
    b"recwarn": ("_pytest.recwarn", "WarningsRecorder"),
    b"monkeypatch": ("_pytest.monkeypatch", "MonkeyPatch"),
}
"""What a suite uses without importing it."""
_import = __import__


def _meaning(module: str, attribute: str, bring: bool) -> Any:
    """What an import gives; None if that is not known yet. The suite is about to import it anyway."""
    if bring and module not in sys.modules:
        try:
            _import(module)
        except Exception:
            return None
    found = sys.modules.get(module)
    return getattr(found, "__dict__", {}).get(attribute) if attribute else found


def _sets(text: bytes, name: str) -> bool:
    """Whether a suite may set such a name itself, in a module, a class or an object."""
    return bool(
        re.search(rb"\b(setattr|patch\w*|monkeypatch|globals|vars|__dict__|exec)\b|\.%b\s*=[^=]" % name.encode(), text)
    )


def _settings() -> tuple[Any, ...] | None:
    """The profile of Hypothesis that is in force."""
    found = getattr(sys.modules.get("hypothesis"), "settings", None)
    return None if found is None else (getattr(found, "_current_profile", None), found.default)


_CHOOSING = ("keyword", "markexpr", "deselect", "lf", "stepwise")
_RUNNING = ("collectonly", "setuponly", "setupplan", "runxfail")


def _chooses(config: pytest.Config) -> bool:
    """Whether options choose among the tests, or say what is one."""
    chosen = any(getattr(config.option, name, None) for name in _CHOOSING)
    return chosen or config.getini("python_functions") != ["test"] or config.getini("python_classes") != ["Test"]


def _options(config: pytest.Config) -> list[str]:
    """What decides which tests there are, and what is done with them; as text, for lists can be changed."""
    said = [getattr(config.option, name, None) for name in (*_CHOOSING, *_RUNNING)]
    return [repr(option) for option in (*said, *map(config.getini, ("python_functions", "python_classes")))]


def _runs_nothing(config: pytest.Config) -> bool:
    """Whether the suite's own options keep tests from being run: canaries would not be, either."""
    return any(getattr(config.option, name, False) for name in _RUNNING[:3])


def _has_lasting_fixtures(item: pytest.Item) -> bool:
    """Whether one that outlasts a test is set up."""
    known = getattr(item, "_fixtureinfo", None)
    definitions = itertools.chain.from_iterable(known.name2fixturedefs.values() if known is not None else ())
    return any(found.scope != "function" and found.cached_result is not None for found in definitions)


class Guard:
    def __init__(self, job: dict[str, Any], workspace: str, channel: Channel, describe: Describer) -> None:
        self._send, self._describe = channel.send, describe
        self._owners = Ownership(describe)
        self._goes_on = bool(job["finished"])
        """Whether this process only runs what another has left: then nothing is a pass any more."""
        files = {path: base64.b64decode(data) for path, data in job["suite"] if path.endswith(".py")}
        self._text = b"\n".join(files.values())
        self._chance = random.Random(os.urandom(32))  # noqa: S311  # who can see its state has seen the canaries
        self._plans: dict[str, canaries.Plan] = {}
        self._blueprints: dict[str, blueprint.Blueprint] = {}
        self._told: dict[str, set[str]] = {"findings": set(), "suspicions": set(), "rejected": set()}
        self._assembly: assembly.Assembly | None = None
        self._items: list[pytest.Item] = []
        self._places: list[Any] = []
        self._tracers: tuple[Any, Any] = None, None
        self._moments: set[str] = set()
        self._marked: set[str] = set()
        self._collectors: dict[str, Any] = {}
        self._inventories: list[inventory.Inventory] = []
        self._own = child.own(job["submission"]) | child.own(job["suite"])
        self._equality = Equality(
            self._owners, self._text, self._chance, workspace, self._blueprints, self._find, self._suspect
        )
        self._meant: dict[str, dict[str, tuple[str, Any]]] = {}
        self._used: list[tuple[str, dict[str, Any], str, Any]] = []
        self._classes_used: dict[int, list[pristine.Kept]] = {}
        self._looks = 0
        self._within_fixtures = False
        self._chooses = False
        """Whether the suite's own options leave tests out."""
        self._options: list[str] = []
        self._hooked: bool | None = None
        self._news: dict[str, list[str]] = {}
        self.suite = served.Served(files, describe.workspace, self._study)
        self._pristine = pristine.keep()
        self.watch = watch.Watch(describe, self._owners.is_judge)
        self._settings = _settings() if b"hypothesis" in self._text else None
        self.complete: set[str] = set()
        """Ids of what was collected without an error."""
        self.quiet: set[str] = set()
        """Canaries of which only the outcome is told. They cannot hang: no candidate is called."""

    def begin(self) -> None:
        """Before anything of the submission can run."""
        self.suite.install()
        self.suite.comparing, self.suite.compared = self._equality.before, self._equality.after
        watch.rejected, watch.dropped = self._rejected, self._dropped
        watch.swapped = lambda: self._find("the submission replaced what Hypothesis runs")
        self._news["checks"] = ["the suite's modules run from memory"]
        if self.suite.blank():
            self._news["checks"].append("the tests cannot be read from disk")
        self.suite.protect()
        self.watch.listen()
        self._hide()

    def _hide(self) -> None:
        """What can be named can be reached: our modules are in no list any more."""
        package = __name__.rpartition(".")[0]
        names = (package, *(f"{package}.{module}" for module in importer.names))
        self._hidden = [sys.modules.pop(name, None) for name in names]  # to let go of one is to copy the page it is on
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, importer.Importer)]

    def _rejected(self, frame: Any) -> None:
        self._tell_rejected(watch.place_of(self._describe, frame, 40))

    def _dropped(self, traceback: Any) -> None:
        """An exception by which Hypothesis counts an input for nothing, however that was made."""
        place = None
        while traceback is not None:
            path = self._describe.relative(traceback.tb_frame.f_code.co_filename)
            if path is not None:
                place = None if path in self._describe.suite else f"{path}:{traceback.tb_lineno}"
            traceback = traceback.tb_next
        self._tell_rejected(place)

    def _tell_rejected(self, place: str | None) -> None:
        if place is not None and place not in self._told["rejected"]:
            self._told["rejected"].add(place)
            self._send({"e": "rejected", "place": place})

    # --- canaries -----------------------------------------------------------

    def _study(self, path: str, tree: Any, source: bytes, filename: str) -> None:
        found = blueprint.Blueprint(tree, source)
        self._blueprints[path] = found
        self._meant[path] = self._meanings(found, source)
        if found.tests and "pytestmark" not in found.bound:
            plan = canaries.Plan(found, filename, self._chance, self._text)
            self._plans[path] = plan
            self._send({"e": "plan", **plan.announced(path), **self._news})
            self._news.clear()

    def _meanings(self, found: blueprint.Blueprint, source: bytes) -> dict[str, tuple[str, Any]]:
        """What a module imports that is not the job's own, and what it uses of that: before the candidate is here."""
        meant: dict[str, tuple[str, Any]] = {}
        for number, (name, module, attribute) in enumerate(found.imports):
            if module.partition(".")[0] not in self._own:
                value = _meaning(module, attribute, bring=number < found.leading)
                if value is not None:
                    meant[name] = (f"{module}.{attribute}" if attribute else module, value)
                    self._uses(value)
        for name, attribute in {(name.decode(), used.decode()) for name, used in _SPOKEN_OF.findall(source)}:
            label, value = meant.get(name, ("", None))
            if isinstance(value, types.ModuleType) and isinstance(vars(value).get(attribute), pristine.KINDS):
                self._used.append((f"{label}.{attribute}", vars(value), attribute, vars(value)[attribute]))
                self._uses(vars(value)[attribute])
        for word, (module, attribute) in _FIXTURES.items():
            if word in source:
                self._uses(_meaning(module, attribute, bring=True))
        return meant

    def _uses(self, value: Any) -> None:
        if isinstance(value, type) and id(value) not in self._classes_used:
            self._classes_used[id(value)] = list(pristine.of_class(value))

    def add_canaries(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Where no fixture of the suite's is torn down or set up for it."""
        if not items or self._goes_on or self._suite_has_hooks(session.config) or _runs_nothing(session.config):
            return
        places = [index for index in range(len(items) + 1) if self._fits(items, index)]
        if not places:
            return
        chosen = sorted((self._chance.choice(places) for _ in range(3)), reverse=True)
        last = items[-1].getparent(pytest.Module)
        twins = self._twins(last, items)
        plans: dict[str, list[pytest.Function]] = {}
        for index in chosen:
            module = self._module_at(items, index)
            path = self._describe.relative(str(module.path)) or ""
            if path not in plans:
                plans[path] = self._plans[path].make_plain(module)
                self._chance.shuffle(plans[path])
            if plans[path]:
                items.insert(index, plans[path].pop())
        items += twins
        self.quiet = {item.nodeid for item in items if self.is_canary(item) and item not in twins}

    def _twins(self, module: Any, items: list[pytest.Item]) -> list[pytest.Function]:
        path = self._describe.relative(str(module.path)) if module is not None else None
        if path not in self._plans:
            return []
        own = [item for item in items if isinstance(item, pytest.Function) and item.parent is module]
        return self._plans[path].make_twins(own)

    def _fits(self, items: list[pytest.Item], index: int) -> bool:
        before = items[index - 1] if index else None
        after = items[index] if index < len(items) else None
        module = self._module_at(items, index)
        if module is None or self._describe.relative(str(module.path)) not in self._plans:
            return False
        if "pytestmark" in vars(module.obj):
            return False
        if before is None or after is None:
            return True
        return before.parent is not after.parent or isinstance(before.parent, pytest.Module)

    def _module_at(self, items: list[pytest.Item], index: int) -> Any:
        return items[index - 1 if index else 0].getparent(pytest.Module)

    def _suite_has_hooks(self, config: pytest.Config) -> bool:
        if self._hooked is None:
            self._hooked = self._finds_hooks(config)
        return self._hooked

    def _finds_hooks(self, config: pytest.Config) -> bool:
        if not _SPEAKS_OF_HOOKS.search(self._text):
            return False  # what says that it is the suite's is not
        for plugin in config.pluginmanager.get_plugins():
            if self._owners.of(plugin) == "suite":
                named = [name for name in dir(plugin) if name.startswith("pytest_")]
                if any(name not in (*_OWN_HOOKS, "pytest_plugins") for name in named):
                    return True
        return False

    def registered(self, plugin: object) -> None:
        """At once: one that has done its work may take itself away before anyone looks."""
        owner, told = self._owners.of(plugin), b"pytest_plugins" in self._text
        disguised = not isinstance(plugin, types.ModuleType) and not _SPEAKS_OF_HOOKS.search(self._text)
        if (owner == "submission" and not told) or (owner == "suite" and disguised):
            self._find("the submission registered a plugin of pytest's")

    def is_canary(self, item: object) -> bool:
        return isinstance(item, canaries.Canary)

    # --- looking ------------------------------------------------------------

    def remember(self, session: pytest.Session) -> None:
        """How pytest's own objects are put together, before any test module is imported."""
        self._assembly = assembly.of(session)
        self._chooses, self._options = _chooses(session.config), _options(session.config)
        self._tracers = sys.gettrace(), sys.getprofile()

    def look(self, when: str) -> None:
        """Compare with what was. Called at moments when no fixture of the suite's is active."""
        self._looks += 1
        try:
            self._look(when)
        except Exception as exc:  # what it looks at is the candidate's to change
            self._find(f"{when}: what pytest is made of cannot be looked at any more ({type(exc).__name__})")
        self._tell()

    def _look(self, when: str) -> None:
        for change in self._pristine.changes(self._is_used, self.watch.raw):
            self._changed(change, when)
        if self._assembly is not None:
            for what in self._assembly.changes(self._owners.place_of, b"pytest_plugins" in self._text):
                self._find(f"the submission {what} ({when})")
        others = self._items and not pristine.identical(self._placed(), self._places)
        if others and not self._suite_has_hooks(self._session.config):
            self._differs("items", "changed pytest's list of tests, or what one of them belongs to", None, when)
        for item in self._items:
            for name in vars(item).keys() & _OF_ITEMS:
                self._find(f"the submission replaced `{name}` of the test {item.nodeid} ({when})")
        for path, found in self._blueprints.items():
            self._look_at_module(path, found, when)
        for kept_class in self._classes_used.values():
            for change in (change for kept in kept_class for change in kept.changes()):
                name = change.name.rpartition(".")[2]
                proof = change.proof and self._is_proof(change.name)
                self._differs(name, f"replaced `{change.name}`", change.now, when, proof=proof)
        for label, space, name, before in self._used:
            if space.get(name) is not before:
                proof = label not in pristine.HARMLESS and self._is_proof(label)
                self._differs(name, f"replaced `{label}`", space.get(name), when, proof=proof)
        for kept in self._inventories:
            for name, what, now in kept.changes():
                self._differs(name, f"changed {what}", now, when)
        if b"match" in self._text and pristine.has_wrong_patterns():
            self._find(f"the submission put other patterns into the cache of `re` ({when})")
        if self._settings is not None and _settings() != self._settings and b"profile" not in self._text:
            self._find(f"the submission changed Hypothesis's settings ({when})")
        for text in self.watch.findings.values():
            self._find(text)

    def _is_used(self, package: str) -> bool:
        """Whether it has a say: pytest's own always, the others where the suite speaks of them."""
        if package == "random" and b"hypothesis" in self._text:
            return True
        return package in _ALWAYS or package.encode() in self._text

    def _changed(self, change: pristine.Change, when: str) -> None:
        place = self._owners.place_of(change.now)
        name = change.name.rpartition(".")[2]
        by_suite = name.encode() in self._text and _sets(self._text, name)
        if place is None and (by_suite or change.now is None or self._owners.is_known(change.now, name)):
            return  # the suite's own doing, or a library's
        by = f", {place}" if place else ""
        said = f"the submission replaced `{change.name}`{by} ({when})"
        if change.proof and self._is_proof(change.name):
            self._find(said)
        else:
            self._suspect(said)

    def _is_proof(self, label: str) -> bool:
        """Pytest's own is no one's to replace. A clock is, for a while: what a test that failed has not put back,
        or what a fixture will, is no trick."""
        return label.partition(".")[0] in pristine.JUDGES or not (self._session.testsfailed or self._within_fixtures)

    def _differs(self, name: str, what: str, now: Any, when: str, proof: bool = True) -> None:
        """Something that the suite relies on is another, and neither the suite nor a library has done it."""
        place = self._owners.place_of(now)
        if place is None and (self._owners.is_known(now, name) or _sets(self._text, name)):
            return
        if name in inventory.OF_TESTS and self._assembly and has_other_plugins(self._assembly.session.config):
            return
        said = f"the submission {what}" + (f", {place}" if place else "") + f" ({when})"
        (self._find if proof else self._suspect)(said)

    # --- the suite's modules ------------------------------------------------

    def _look_at_module(self, path: str, found: blueprint.Blueprint, when: str) -> None:
        collector = self._collectors.get(path)
        if collector is None:
            return
        space = vars(collector.obj)
        if path in self.suite.codes and (space.get("@pytest_ar"), space.get("@py_builtins")) != (rewrite, builtins):
            self._find(f"the submission replaced what asserts call in the suite's {path}")
        for name, (label, before) in self._meant[path].items():
            if space.get(name) is not before and name not in found.rebound:
                self._differs(
                    name, f"replaced `{name}`, which is {label}, in the suite's {path}", space.get(name), when
                )
        for value in list(space.values()):
            self._look_at_class(value)
        for name in set(space) - found.bound:
            hides = name in _BUILT_IN and not name.startswith("__")
            if hides and found.stars and name.encode() in self._text:
                self._suspect(f"the suite's `import *` takes the submission's `{name}` for the built-in one")
            elif (hides or name in _DECIDING) and not found.stars:
                self._find(f"the submission put `{name}` among the names of the suite's {path}")

    def _look_at_class(self, value: Any) -> None:
        """One that claims what it has never seen would pass every `isinstance` and `pytest.raises`."""
        if not issubclass(type(value), type) or type(value) is type:
            return
        of_exceptions = BaseException in type.mro(value)
        if (of_exceptions or self._describe.owner(file_of(value)) == "submission") and issubclass(Fresh, value):
            said = f"{value.__module__}.{value.__qualname__} of the submission claims to be a base of any class"
            (self._find if of_exceptions else self._suspect)(said)

    def collected(self, session: pytest.Session) -> None:
        """All tests are known; the candidate has been imported, and none has run."""
        self._items, self._session = list(session.items), session
        self._places = self._placed()
        if len(self._items) >= MANY:
            own = [item for item in self._items if not self.is_canary(item)]  # whose fixtures are known
            self._moments = {self._chance.choice(own).nodeid} if own else set()
        for item in self._items:
            module = item.getparent(pytest.Module)
            if module is not None:
                self._collectors.setdefault(self._describe.relative(str(module.path)) or "", module)
        if self._options and _options(session.config) != self._options and b"option" not in self._text:
            self._find("the submission changed pytest's options")
        decides = self._suite_has_hooks(session.config) or b"collect_ignore" in self._text
        complete = not (self._chooses or decides or self._goes_on)
        if complete:
            self._look_for_missing()
        self._take_inventory(complete)
        self._marked = {item.nodeid for item in self._items if inventory.may_be_skipped(item)}
        self.look("after collection")

    def _placed(self) -> list[Any]:
        """Which tests are to be run, in what order, and the objects of pytest's that each goes by."""
        return [*self._session.items, *itertools.chain.from_iterable(map(_belongs_to, self._items))]

    def _take_inventory(self, complete: bool) -> None:
        """Compare the suite's modules with their source, and remember what they are made of."""
        items: dict[str, list[pytest.Item]] = {}
        for item in self._items:
            if not self.is_canary(item):
                items.setdefault(item.nodeid.partition("::")[0], []).append(item)
        for path, found in self._blueprints.items():
            if path in self._collectors:
                space, code = vars(self._collectors[path].obj), self.suite.codes.get(path)
                kept = inventory.Inventory(path, space, found, code, self._owners.place_of)
                for name, what, now in kept.amiss(items.get(path, []), complete):
                    self._differs(name, f"changed {what}", now, "after collection")
                kept.keep(items.get(path, []))
                if not _READS_ROWS.search(self._text) and not self._is_imported(path):
                    kept.mislead(self._chance)
                self._inventories.append(kept)
        for path, module in self._helpers():
            found = blueprint.Blueprint(ast.parse(self.suite.on_disk[path]), self.suite.on_disk[path])
            kept = inventory.Inventory(path, vars(module), found, None, self._owners.place_of)
            for name, what, now in kept.amiss([], complete):
                self._differs(name, f"changed {what}", now, "after collection")
            kept.keep([])
            self._inventories.append(kept)

    def _is_imported(self, path: str) -> bool:
        """Whether another of the suite's modules may use what stands in this one."""
        name = path.rpartition("/")[2].removesuffix(".py").encode()
        return bool(re.search(rb"\b(from|import)\b.*\b%b\b" % name, self._text))

    def _helpers(self) -> list[tuple[str, Any]]:
        """The suite's other modules, which Python itself has imported."""
        others = [
            path for path in self.suite.on_disk if path not in self._blueprints and not path.endswith("__init__.py")
        ]
        if not others:
            return []
        files = {getattr(module, "__file__", None): module for module in list(sys.modules.values())}
        named = ((path, files.get(os.path.join(self._describe.workspace, path))) for path in others)
        return [(path, module) for path, module in named if module is not None]

    def _look_for_missing(self) -> None:
        there: dict[str, set[str]] = {}
        for item in self._items:
            path, _, name = item.nodeid.partition("::")
            there.setdefault(path, set()).add(name.partition("[")[0])
        for path, found in self._blueprints.items():
            missing = [name for name in found.tests if name not in there.get(path, ())]
            if missing and path in self.complete:
                self._find(f"{len(missing)} of the tests in {path} were kept from being collected: {missing[0]}")

    def was_marked(self, item: pytest.Item) -> bool:
        """Whether its marks let a test be skipped or fail when all was collected, or may by the suite's own doing."""
        by_itself = self._suite_has_hooks(item.config) or b"add_marker" in self._text or b"applymarker" in self._text
        return item.nodeid in self._marked or by_itself

    def let_go(self) -> None:
        """What the candidate had Python call at each step of a test is called at none of pytest's own."""
        if _TRACES.search(self._text):
            return  # it may be the suite's own
        trace, profile = self._tracers
        if sys.getprofile() is not profile:
            sys.setprofile(profile)
        if sys.gettrace() is not trace:
            sys.settrace(trace)

    def before(self, item: pytest.Item) -> None:
        if item.nodeid in self._moments:
            self._moments.discard(item.nodeid)
            self._within_fixtures = _has_lasting_fixtures(item)
            self.look("between two tests")
            self._within_fixtures = False

    def before_call(self, item: pytest.Item) -> None:
        """What is called has to be the test that was collected, with its parameters."""
        if isinstance(item, pytest.Function):
            for kept in self._inventories:
                for name, what, now in kept.changes_of(item):
                    self._differs(name, f"changed {what}", now, "when it was called")

    def end(self) -> dict[str, int]:
        """The last word, after pytest has finished; what is to stand in the event that says so."""
        for path in self.suite.altered():
            self._find(f"the suite's {path} was changed on disk")
        for text in self.watch.suspicions.values():
            self._suspect(text)
        self._tell()
        return {"looks": self._looks}

    # --- telling ------------------------------------------------------------

    def _find(self, text: str) -> None:
        self._note("findings", text)

    def _suspect(self, text: str) -> None:
        self._note("suspicions", text)

    def _note(self, kind: str, text: str) -> None:
        short, told = text.partition(" (")[0], self._told[kind]
        if short not in told and len(told) < MOST:
            told.add(short)
            self._news.setdefault(kind, []).append(text[:500])

    def _tell(self) -> None:
        if self._news:
            self._send({"e": "integrity", **self._news})
            self._news.clear()
