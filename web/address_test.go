package web

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAddresses opens addresses that nobody's page would have: somebody else may have sent them, or they were cut off. The view is shown as far
// as it can be, and a command to copy has nothing of the address but what the command knows.
func TestAddresses(t *testing.T) {
	a := newAPIServer(t)
	a.fill(16)
	q := research()
	q.steps = told(16, time.Now().Add(-6*time.Hour), time.Now())
	s := start(t, a, q, time.Second)
	b := browse(t, 1280, 800)
	b.open(s.Link())
	b.Until(`document.querySelector(".stage")?.dataset.painted`)
	values := []string{"x", "-1", "0", "1e300", "NaN", "Infinity", "constructor", "__proto__", "$(touch%20owned)", "%E2%80%AE", "%", "a&a", strings.Repeat("9", 400)}
	for _, view := range append([]string{"constructor", "__proto__", "%", "fleet?x?y"}, viewNames...) {
		b.goTo(view)
		b.Until(`document.querySelector("#tabs a[aria-current]").dataset.view === document.querySelector("main").className.split(" ")[0]`)
	}
	for view, names := range map[string][]string{
		"fleet": {"colour", "group", "q", "sel", "at", "view", "pods"}, "queues": {"q", "queue"}, "why": {"name", "kind", "namespace"}, "ledger": {"by", "who", "span", "from", "to"}, "health": {"span", "from", "to"},
	} {
		for _, v := range values {
			b.Do(fmt.Sprintf(`location.hash = %q`, fmt.Sprintf("#%s?%s=%s", view, strings.Join(names, "="+v+"&"), v)))
			time.Sleep(30 * time.Millisecond)
			b.Until(`document.querySelector("main").childElementCount > 0`)
		}
		b.Until(settled)
	}
	b.goTo("ledger?by=$(touch%20owned)&who=$(touch%20owned)")
	if text := b.Text(`[...document.querySelectorAll(".command code")].map((e) => e.innerText).join("\n")`); strings.Contains(text, "touch") || !strings.Contains(text, "berth cost --by queue") {
		t.Errorf("to copy: %s", text)
	}
	for _, span := range []string{"from=9000000000000000&to=9000000000000001", "from=5&to=3", "from=1e300&to=1e301", "span=1e300", "span=-60"} {
		b.goTo("ledger?" + span)
		b.goTo("health?" + span)
	}
	b.Until(`document.querySelector(".chart path.use")`)
}

// TestStateIsInTheAddress changes what is looked at as a person does, loads the page again from its address, and expects the same.
func TestStateIsInTheAddress(t *testing.T) {
	a := newAPIServer(t)
	a.fill(64)
	q := research()
	q.steps = told(64, time.Now().Add(-6*time.Hour), time.Now())
	s := start(t, a, q, time.Second)
	b := browse(t, 1280, 800)
	b.open(s.Link())
	b.Until(`document.querySelector(".stage")?.dataset.painted`)
	const set = `const set = (at, value, what = "change") => { const e = document.querySelector(at); e.value = value; e.dispatchEvent(new Event(what)); };`
	for _, c := range []struct{ view, does, state string }{
		{"fleet", set + `set("[aria-label='Colour by']", "job"); set("[aria-label='Group by']", "model")`, `document.querySelector("[aria-label='Colour by']").value + document.querySelector("[aria-label='Group by']").value + [...document.querySelectorAll(".legend .key")].map((e) => e.innerText).join()`},
		{"fleet", set + `set("input[type=search]", "gpu-0013", "input"); document.querySelector("[aria-pressed]").click()`, `document.querySelector(".sum").innerText + document.querySelectorAll("table.nodes tbody th").length + document.querySelector("main").className`},
		{"fleet", `location.hash = "#fleet?view=table&q=gpu-0011"; setTimeout(() => document.querySelector("table.nodes button.name").click(), 300)`, `document.querySelector(".detail").innerText`},
		{"fleet", `document.querySelector(".then").click()`, `document.querySelector(".replay").dataset.at + document.querySelector(".sum").innerText`},
		{"queues", `[...document.querySelectorAll("table.queues button.name")].find((e) => e.innerText === "vision").click()`, `document.querySelector("tr[aria-selected]").innerText + document.querySelectorAll("table.line tbody tr").length + document.querySelector(".simulate").innerText`},
		{"why", `document.querySelector(".waiting a").click()`, `document.querySelector(".sentence").innerText + document.querySelector(".item[aria-current]").innerText.split("\n")[0]`},
		{"ledger", set + `set("[aria-label='Rows by']", "pool"); set("[aria-label='A line per']", "namespace"); document.querySelectorAll(".spans button")[2].click()`, `document.querySelector("[aria-label='Rows by']").value + document.querySelector("[aria-label='A line per']").value + document.querySelector(".spans [aria-pressed=true]").innerText`},
		{"health", `document.querySelectorAll(".spans button")[2].click()`, `document.querySelector(".spans [aria-pressed=true]").innerText`},
		{"health?span=21600", `const r = document.querySelector(".chart svg").getBoundingClientRect(), e = (k, f) => document.querySelector(".chart svg").dispatchEvent(new PointerEvent(k, { clientX: r.left + r.width * f, clientY: r.top + 80, pointerId: 1, bubbles: true })); e("pointerdown", 0.3); e("pointermove", 0.5); e("pointerup", 0.6)`, `document.querySelector(".differ").dataset.done + document.querySelector(".differ").innerText`},
	} {
		b.goTo(c.view)
		b.Until(`document.querySelector("#age").innerText === "live"`)
		if strings.HasPrefix(c.view, "health") {
			b.Until(`document.querySelector(".chart svg")`)
		}
		b.Do(c.does)
		time.Sleep(600 * time.Millisecond)
		b.Until(settled)
		b.Until(`!location.hash.includes("at=log")`) // a moment of the log was drawn
		was := b.Text(c.state)
		at := b.Text(`location.hash`)
		if strings.TrimPrefix(at, "#") == c.view {
			t.Errorf("%s: nothing is in the address after %s", c.view, c.does)
		}
		b.Do(`location.reload()`)
		b.Until(fmt.Sprintf(`document.readyState === "complete" && document.querySelector("main").childElementCount > 0 && (() => { try { return (%s) === %q } catch { return false } })()`, c.state, was))
		if is := b.Text(`location.hash`); is != at {
			t.Errorf("%s became %s", at, is)
		}
	}
}
