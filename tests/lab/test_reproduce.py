"""The report: complete, deterministic, resumable; the cells behind it."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from cli_support import build_grown

from anyorder.data.test_sets import load_test_set
from anyorder.lab.cells import Candidate, Cell, CellError, Job, Spent, Store, decode, identify, rescore, run
from anyorder.lab.findings import claims, pairs
from anyorder.lab.generations import Watch, watch, watched
from anyorder.lab.report import reproduce
from anyorder.lab.results import Results, Row
from anyorder.lab.rows import AR, CHOICES, EVERYTHING, PICKED, Rows, Scope, schedule, what_findings_need
from anyorder.lab.tables import beside_baseline, paper_table
from anyorder.pool import Processes
from anyorder.text.load import load
from anyorder.text.plan import Plan

QUICK = Scope(others=("tatoeba-test",), limit=100, headline=100, seeds=2, quick=True)
TABLES = ("README.md", "report.html", "results.jsonl", "orders.svg", "energy.svg", "frontier.svg", "samples.html")


@pytest.fixture(scope="module")
def report(model: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    assert reproduce(str(model), data, out, QUICK).left == 0
    return out


def test_has_every_part(report: Path) -> None:
    text = (report / "README.md").read_text(encoding="utf-8")
    for part in ("Does it hold?", "Table 1", "Table 2", "Table 3", "could not have", "orders", "Energy", "Sample"):
        assert part in text
    assert "tok:13a" in text and "passes" in text and "head rows" in text
    for number in ("5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "6.1", "6.3b", "6.6"):
        assert f"| {number} |" in text
    rows = [json.loads(line) for line in (report / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {r["direction"] for r in rows} == {"de-en", "en-de"}
    assert {r["corpus"] for r in rows} == {"test_2016_flickr", "tatoeba-test", "val"}
    assert all(r["sentences"] == 4 and r["passes"] > 0 and 0 <= r["bleu"] <= 100 for r in rows)


def test_page_stands_alone_and_is_well_formed(report: Path) -> None:
    page = (report / "report.html").read_text(encoding="utf-8")

    class Check(HTMLParser):
        frames, figures = 0, 0

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            Check.frames += tag == "iframe"
            Check.figures += tag == "svg"
            for name, value in attrs:
                assert name not in ("src", "href") or (value or "").startswith(("#", "data:")), (tag, value)

    Check().feed(page)
    assert Check.frames == 1 and Check.figures == 4


def test_two_runs_give_the_same_files(report: Path, model: Path, data: Path, tmp_path: Path) -> None:
    reproduce(str(model), data, tmp_path, QUICK, pool=Processes(2))  # in two processes this time
    for name in TABLES:
        assert (tmp_path / name).read_bytes() == (report / name).read_bytes(), name


def test_a_finished_report_decodes_nothing_again(report: Path, model: Path, data: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (report / "cells").iterdir()}
    reproduce(str(model), data, report, QUICK)
    assert {path: path.stat().st_mtime_ns for path in (report / "cells").iterdir()} == before


def test_an_interrupted_run_says_what_is_missing_and_goes_on(model: Path, data: Path, tmp_path: Path) -> None:
    stopped = reproduce(str(model), data, tmp_path, QUICK, minutes=0)
    assert stopped.left > 0
    assert "not measured" in (tmp_path / "README.md").read_text(encoding="utf-8")
    store = Store(tmp_path / "cells", identify(str(model)))
    first = schedule(Rows(QUICK), Results(store, data))[0]
    assert isinstance(first, Job)
    run(first, store, load(model), load_test_set(data, first.cell.corpus, first.cell.direction))
    again = reproduce(str(model), data, tmp_path, QUICK, minutes=0)
    assert again.left == stopped.left - 1


def test_findings_alone_are_those_of_the_report(report: Path, model: Path, data: Path, tmp_path: Path) -> None:
    """From the report's own cells, with nothing decoded; the same from none, which decodes what they need only."""
    stopped = reproduce(
        str(model), data, tmp_path / "known", QUICK, only_findings=True, cache=report / "cells", minutes=0
    )
    alone = reproduce(str(model), data, tmp_path / "alone", QUICK, only_findings=True)
    assert stopped.left == alone.left == 0
    known, text = (written.files[0].read_text(encoding="utf-8") for written in (stopped, alone))
    whole = (report / "README.md").read_text(encoding="utf-8")
    assert known == text and "| 6.6 |" in text
    for part in text.split("\n## ")[1:]:
        assert part.rstrip() in whole
    assert all(f"\n## {name}" in text for name in ("Does it hold?", "Table 1", "Table 3"))
    assert 0 < len(list((tmp_path / "alone" / "cells").iterdir())) < len(list((report / "cells").iterdir()))


def test_what_decides_a_finding_has_as_many_sentences_as_the_first_table(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyorder.lab.results.CHUNK", 1)
    scope = Scope(learned=frozenset({"de-en", "en-de"}), limit=1, headline=3, others=())
    results = Results(Store(tmp_path, {}), data)
    rows_ = Rows(scope)
    planned = set(schedule(rows_, results))
    every = [pair for c in claims(scope.seeds) for part in c.parts for pair in pairs(results, rows_, part)]
    rows = {side for pair in every for side in (pair.a, pair.b) if isinstance(side, Row)}
    assert len(rows) > 100
    for tasks in (planned, set(what_findings_need(rows_, results))):
        assert all(tasks.issuperset(results.jobs(row, scope.headline)) for row in rows)
    assert not any(isinstance(task, Job) and task.cell.order.startswith("wino") and task.start for task in planned)


def test_a_cell_is_what_the_translator_does(model: Path, data: Path) -> None:
    translator = load(model)
    corpus = load_test_set(data, "val", "de-en")
    found, spent = decode(Cell("val", "de-en", "easy-first", lengths=2), translator, corpus)
    assert [len(row) for row in found] == [2] * 4 and spent.canvases > 0
    plain = translator.translate(corpus.sources, to="en", plan=Plan.of("easy-first", lengths=1))
    assert [row[0].text for row in found] == [t.text for t in plain]
    gold, _ = decode(Cell("val", "de-en", "easy-first", lengths=1, gold=True), translator, corpus)
    wanted = translator.tokenizer.encode(corpus.references, "en")
    assert [len(row[0].ids) for row in gold] == [len(ids) for ids in wanted]


def test_a_beam_keeps_the_best_of_each_length(model: Path, data: Path) -> None:
    translator = load(model)
    corpus = load_test_set(data, "val", "de-en").part(0, 1)
    found, spent = decode(Cell("val", "de-en", "easy-first", beam=3, lengths=2), translator, corpus)
    every = translator.candidates(corpus.sources, "en", plan=Plan.of("easy-first", beam=3, lengths=2))[0]
    assert [c.text for c in found[0]] == [max(some, key=lambda h: h.path_score).text for some in every]
    _, greedy = decode(Cell("val", "de-en", "easy-first", lengths=2), translator, corpus)
    assert spent.canvases > 2 * greedy.canvases


def test_several_orders_are_candidates_of_one_cell(model: Path, data: Path) -> None:
    translator = load(model)
    corpus = load_test_set(data, "val", "de-en").part(0, 2)
    both, spent = decode(Cell("val", "de-en", "left2right | mask-predict(3)", lengths=2), translator, corpus)
    alone = [decode(Cell("val", "de-en", o, lengths=2), translator, corpus) for o in ("left2right", "mask-predict(3)")]
    assert both == [a + b for a, b in zip(alone[0][0], alone[1][0], strict=True)]
    assert spent.canvases == alone[0][1].canvases + alone[1][1].canvases


def test_rescoring_is_the_models_own_score(model: Path, data: Path) -> None:
    translator = load(model)
    corpus = load_test_set(data, "val", "de-en").part(0, 2)
    ids = translator.tokenizer.encode(corpus.references, "en")
    candidates = [[Candidate(t, i, 0.0, 0.0)] for t, i in zip(corpus.references, ids, strict=True)]
    for criterion, scorer, ends in (("pll", translator, 0), ("ar", translator.beside(), 1)):
        scores, _ = rescore(candidates, criterion, translator, corpus)  # type: ignore[arg-type]
        whole = scorer.score(corpus.sources, corpus.references, to="en")
        assert [s[0] for s in scores] == pytest.approx(
            [w / (len(i) + ends) for w, i in zip(whole, ids, strict=True)], rel=1e-4
        )


def test_what_a_model_that_writes_forwards_adds(data: Path, tmp_path: Path) -> None:
    translator, corpus = load(build_grown(tmp_path / "grown")), load_test_set(data, "val", "de-en").part(0, 2)
    found, spent = decode(Cell("val", "de-en", "forwards", lengths=1), translator, corpus)
    assert [row[0].text for row in found] == [t.text for t in translator.translate(corpus.sources, "en")]
    assert spent.canvases > 0
    scores, _ = rescore(found, "forwards", translator, corpus)
    causal, _ = rescore(found, "ar", translator, corpus)  # the model beside it, which it has just grown out of
    assert [s[0] for s in scores] == pytest.approx([s[0] for s in causal], rel=1e-4)
    all_, some = (Rows(Scope(forwards=f)).of("first", "de-en") for f in (True, False))
    names = {(name,) for name, *_ in CHOICES}
    assert names <= all_.keys() and not names <= some.keys()


def test_the_papers_choices_are_measured_beside_ours(model: Path, data: Path, tmp_path: Path) -> None:
    """Sums instead of means, from the same candidates; masked conditionals as cells of their own."""
    translator, store = load(model), Store(tmp_path, {})
    results, corpus = Results(store, data), load_test_set(data, "val", "de-en")
    cell = Cell("val", "de-en", "easy-first")
    for criterion in ("written", "pll"):
        run(Job(cell, 0, len(corpus), criterion), store, translator, corpus)
    found, scored = (store.chunk(Job(cell, 0, len(corpus), c)) for c in ("written", "pll"))
    assert found is not None and scored is not None
    for criterion in ("written", "pll"):
        plain = results.measure(Row(cell, criterion, plain=True), len(corpus))
        assert plain is not None
        for n, some in enumerate(found.candidates):
            sums = [c.log_length + c.written if criterion == "written" else m * len(c.ids)
                    for c, m in zip(some, scored.scores[n], strict=True)]  # fmt: skip
            assert plain.texts[n] == some[sums.index(max(sums))].text
    again = Cell("val", "de-en", "least2most", 4, "anneal")
    masked = replace(again, conditionals="masked")
    assert masked.plan().conditionals == "masked" and store.of(Job(masked, 0, 4)) != store.of(Job(again, 0, 4))
    assert decode(masked, translator, corpus)[1].canvases > 2 * decode(again, translator, corpus)[1].canvases
    rows = Rows(Scope())
    assert len(rows.of("chosen", "de-en")) > 4 and len(rows.of("conditionals", "de-en")) > 4


def test_scoring_needs_decoding_first(model: Path, data: Path, tmp_path: Path) -> None:
    job = Job(Cell("val", "de-en", "easy-first"), 0, 4, "pll")
    with pytest.raises(CellError, match="decoded before"):
        run(job, Store(tmp_path, identify(str(model))), load(model), load_test_set(data, "val", "de-en"))


def test_fewer_lengths_choose_among_fewer_and_cost_less(model: Path, data: Path, tmp_path: Path) -> None:
    store = Store(tmp_path, identify(str(model)))
    corpus = load_test_set(data, "val", "de-en")
    cell = Cell("val", "de-en", "easy-first")
    run(Job(cell, 0, 4), store, load(model), corpus)
    results = Results(store, data)
    one, four = (results.measure(Row(cell, lengths=n), 4) for n in (1, 4))
    assert one is not None and four is not None and one.passes < four.passes
    chunk = store.chunk(Job(cell, 0, 4))
    assert chunk is not None
    assert one.texts == [row[0].text for row in chunk.candidates]
    best = [max(row, key=lambda c: c.written / c.length).text for row in chunk.candidates]
    assert four.texts == best
    assert results.measure(Row(Cell("val", "en-de", "easy-first")), 4) is None


def test_a_chunk_belongs_to_its_weights_alone(tmp_path: Path) -> None:
    known = {"model": "1", "ar": "2", "tokenizer": "3", "lengths": "4", "policy-de-en": "5"}
    easy, learned = (Job(Cell("val", "de-en", order), 0, 100) for order in ("easy-first", "learned"))
    baseline = Job(Cell("val", "de-en", "autoregressive"), 0, 100)
    scored = replace(easy, criterion="ar")

    def changed(name: str) -> set[str]:
        a, b = Store(tmp_path, known), Store(tmp_path, {**known, name: "new"})
        jobs = {"easy": easy, "learned": learned, "baseline": baseline, "scored": scored}
        return {n for n, job in jobs.items() if a.of(job) != b.of(job)}

    assert changed("model") == {"easy", "learned", "scored"}
    assert changed("ar") == {"baseline", "scored"}
    assert changed("policy-de-en") == {"learned"}


def test_a_damaged_chunk_counts_as_none(tmp_path: Path) -> None:
    store = Store(tmp_path, {})
    job = Job(Cell("val", "de-en", "easy-first"), 0, 1)
    store.write(store.of(job), {"candidates": [[]], "scores": [], "spent": {"canvases": 1}})
    assert Store(tmp_path, {}).chunk(job) is not None
    store.of(job).write_bytes(store.of(job).read_bytes()[:20])
    assert Store(tmp_path, {}).chunk(job) is None


def test_costs_add_up() -> None:
    assert Spent(1, 2, 0.5) + Spent(3, 4, 0.25) == Spent(4, 6, 0.75)


def test_watched_generations_come_back_as_they_were(model: Path, data: Path, tmp_path: Path) -> None:
    store = Store(tmp_path, identify(str(model)))
    task = Watch("val", "de-en", "easy-first", 0, 2)
    assert watched(task, store) is None
    watch(task, store, load(model), load_test_set(data, "val", "de-en"))
    seen = watched(task, store)
    assert seen is not None and len(seen) == 2
    for item in seen:
        assert sorted(item.order) == list(range(item.trace.length))
        assert len(item.energy) == len(item.trace.steps)


def test_every_cell_of_the_full_report_has_a_plan() -> None:
    scope = Scope(learned=frozenset({"de-en"}), tuned={"de-en": "negent + 0.9*logp"})
    rows = Rows(scope)
    for entry in rows.entries:
        if "learned" not in entry.row.cell.order:
            for one in entry.row.cell.plan().each:
                if one.order not in (None, "forwards"):
                    one.decoder()
    assert ("1", "L", "learned") in rows.of("1", "de-en") and ("1", "L", "learned") not in rows.of("1", "en-de")


def test_an_order_of_ones_own_has_a_column(model: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from anyorder.core import rightmost as mine\n", encoding="utf-8")
    scope = replace(QUICK, own=(f"{tmp_path}/mine.py:mine",))
    results, translator = Results(Store(tmp_path, identify(str(model))), data), load(model)
    rows = Rows(scope)
    for table in ("1", "3"):
        mine = rows.some(table, lambda name: name[-1] in scope.own)
        assert len(mine) >= 2
        for row in mine:
            for job in results.jobs(row, 4):
                run(job, results.store, translator, results.corpus(row.cell))
        assert "| mine.py:mine |" in paper_table(results, rows, table)
    before = results.store.of(job)
    (tmp_path / "mine.py").write_text("from anyorder.core import leftmost as mine\n", encoding="utf-8")
    assert results.store.of(job) != before  # another order, by the same name


def test_whole_sets_are_shown_where_the_first_table_has_less(model: Path, data: Path, tmp_path: Path) -> None:
    results, translator = Results(Store(tmp_path, identify(str(model))), data), load(model)
    rows = Rows(Scope(others=(), headline=2))
    assert beside_baseline(results, rows, rows.scope.main, whole=True) == ""
    picked = rows.some("first", lambda n: n[0].startswith(PICKED))
    for row in picked:
        for job in results.jobs(row, EVERYTHING):
            run(job, results.store, translator, results.corpus(row.cell))
    text = beside_baseline(results, rows, rows.scope.main, whole=True)
    assert text.count("| 4 |") == len(picked) and AR in text
    assert beside_baseline(results, Rows(replace(rows.scope, headline=4)), rows.scope.main, whole=True) == ""
