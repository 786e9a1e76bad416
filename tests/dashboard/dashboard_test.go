//go:build realserver

package dashboard

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"tmpproxy/trial"
)

var everyPage = []string{"tables", "trial", "advice", "sessions-page"}

// TestLoads opens every page in both colours: no complaint, no other host, figures where they belong.
func TestLoads(t *testing.T) {
	for _, dark := range []bool{false, true} {
		name := map[bool]string{false: "light", true: "dark"}[dark]
		t.Run(name, func(t *testing.T) {
			f := newFake(t, token, false)
			f.trial = madeUpTrial(trial.Spec{Name: "legacy", Assignment: "random", Arms: []trial.ArmSpec{{Name: "native", Strategy: "native", Weight: 1},
				{Name: "innodb", Strategy: "innodb", Weight: 1}, {Name: "keep", Strategy: "keep", Weight: 1}}})
			l := desk
			l.dark = dark
			b := open(t, f.host, "", l)
			for selector, text := range map[string]string{
				"#version": "v1.2.3", "#strategy": "innodb", "#strategy-note": "as the settings say", "#sessions": "37", "#uptime": "the proxy is up 3 h",
				"#reused": "96 %", "#reuses": "12,384 of 12,900 cycles", "#saved": "2 min 14 s", "#state": "live",
			} {
				b.says(selector, text)
			}
			if got := ask[string](b, `getComputedStyle(document.body).backgroundColor`); got != map[bool]string{false: "rgb(245, 246, 248)", true: "rgb(18, 22, 28)"}[dark] {
				t.Errorf("the background is %s", got)
			}
			// By time saved, the most first; losses are last.
			order := ask[[]string](b, `[...document.querySelectorAll("#tables tbody tr td:nth-child(2)")].map(td => td.innerText)`)
			if !slices.Equal(order, []string{"2 min 10 s", "4.14 s *", "–", "−20.0 ms"}) {
				t.Errorf("time saved: %q", order)
			}
			b.says("#tables", "⚠ rows vanished on ROLLBACK (3)")
			b.says("#tables", "made AS SELECT (200)")
			b.says("#tables", "left alone for now: it did not pay, or a hazard blocks it (412)")
			b.says("#tables-more", "* against the CREATEs that the proxy sent in place of the client’s")
			// What clients write stays text.
			b.says("#tables", `<img src=x onerror="document.title=1">`)
			if n := ask[int](b, `document.querySelectorAll("img").length`); n != 0 {
				t.Errorf("%d images", n)
			}
			b.click("#tables tbody tr:nth-child(2) summary")
			b.says("#tables tbody tr:nth-child(2) .facts", "CREATE answered here")
			b.says("#tables tbody tr:nth-child(2) .facts", "40.0 µs")
			b.click("button.help")
			b.until("the explanation", `document.querySelector("#saved-help").matches(":popover-open")`)
			b.press(escape)
			b.until("the explanation gone", `!document.querySelector("#saved-help").matches(":popover-open")`)
			b.picture("tables-" + name)

			b.visit("trial")
			b.says("#trial-summary", "legacy has been running since")
			b.says("#trial-verdicts", "A cycle takes 17 to 26 % less time than under native.")
			b.says("#trial-verdicts .better .figure", "−22 %")
			b.until("both plots", `document.querySelectorAll("#trial .plot canvas").length === 2`)
			for _, plot := range []string{"0", "1"} {
				// Something is drawn in the colours of two arms.
				colours := ask[int](b, `(() => { const c = document.querySelectorAll("#trial .plot canvas")[`+plot+`]; const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
					const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i+3] > 200) seen.add((d[i]>>5)*64+(d[i+1]>>5)*8+(d[i+2]>>5)); return seen.size })()`)
				if colours < 4 {
					t.Errorf("plot %s has %d colours", plot, colours)
				}
			}
			b.picture("trial-" + name)
			b.visit("advice")
			b.says("#advice", "1.2 cycles per session: no gain to expect.")
			b.says("#advice", "Observing 212 sessions for 1 h 30 min.")
			b.picture("advice-" + name)
			b.visit("sessions-page")
			b.says("#sessions-summary", "37 sessions: 37 as in force. 36 temporary tables live, 71 parked.")
			b.picture("sessions-" + name)
		})
	}
}

// TestUpdates changes what the proxy says while the page is open.
func TestUpdates(t *testing.T) {
	f := newFake(t, token, false)
	b := open(t, f.host, "", desk)
	b.says("#reuses", "12,384 of 12,900 cycles")
	b.click("#tables tbody tr:nth-child(1) summary")
	f.with(func() {
		f.cycles = 20000
		f.shapes[0].Saved.Seconds = 1000 // overtakes the other
		f.shapes = f.shapes[:2]
		f.sessions = f.sessions[:1]
	})
	b.says("#reuses", "19,200 of 20,000 cycles")
	b.says("#sessions", "1")
	b.until("the new order", `document.querySelectorAll("#tables tbody tr").length === 2 && document.querySelector("#tables tbody tr td:nth-child(2)").innerText.startsWith("16 min 40 s")`)
	// What was unfolded moves with its table.
	if got := ask[string](b, `[...document.querySelectorAll("#tables tbody details")].map(d => d.open).join()`); got != "false,true" {
		t.Errorf("unfolded: %s", got)
	}
	f.with(func() { f.shapes = nil })
	b.until("no table", `!document.querySelector("#tables-empty").hidden && document.querySelector("#tables").hidden`)
}

// TestLost has the proxy's answers fail for a while.
func TestLost(t *testing.T) {
	f := newFake(t, token, false)
	b := open(t, f.host, "", desk)
	f.with(func() { f.sessions[0]["id"] = func() {}; f.shapes[0].Saved.Seconds = nan() })
	b.says("#state", "no answer")
	b.expect("500")
	f.with(func() { f.sessions, f.shapes = madeUpSessions(), madeUpShapes() })
	b.says("#state", "live")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = slices.DeleteFunc(b.faults, func(fault string) bool { return strings.Contains(fault, "500") })
}

func nan() float64 { return math.NaN() }

// switched waits for the strategy in force.
func (b *tab) switched(to string) {
	b.t.Helper()
	b.until("strategy "+to, fmt.Sprintf(`document.querySelector("#strategy").innerText === %q`, to))
}

// TestSwitch switches to native and back: the token is asked for once, and a wrong one is told.
func TestSwitch(t *testing.T) {
	f := newFake(t, token, false)
	b := open(t, f.host, "", desk)
	b.click("#switch")
	b.until("the question", `document.querySelector("#token-dialog").open`)
	b.press(escape)
	b.until("the question gone", `!document.querySelector("#token-dialog").open`)
	if got := f.asked(); len(got) != 0 {
		t.Errorf("asked without a token: %q", got)
	}
	b.click("#switch")
	b.until("the field", `document.activeElement.id === "token"`)
	b.press("a-wrong-token-for-this" + enter)
	b.says("#token-fault", "This token is not the proxy’s.")
	b.expect("401")
	b.until("the field", `document.activeElement.id === "token" && document.activeElement.value === ""`)
	b.picture("token")
	b.press(token + enter)
	b.switched("native")
	b.says("#strategy-note", "switched by an operator")
	b.says("#switch", "Back to innodb")
	b.says("#messages", "Every next cycle is left to the server.")
	b.picture("switched")
	b.do(chromedp.Reload()) // the token is kept
	b.says("#switch", "Back to innodb")
	b.click("#switch")
	b.switched("innodb")
	if got := f.asked(); !slices.Equal(got, []string{`strategy {"strategy":"native"}`, `strategy {"strategy":"configured"}`}) {
		t.Errorf("asked: %q", got)
	}
	if kept := ask[int](b, `localStorage.length + document.cookie.length`); kept != 0 {
		t.Error("something is kept beyond the tab")
	}
}

// TestSwitchFree needs no token behind a unix socket.
func TestSwitchFree(t *testing.T) {
	f := newFake(t, "", true)
	b := open(t, f.host, "", desk)
	b.click("#switch")
	b.switched("native")
	if ask[bool](b, `document.querySelector("#token-dialog").open`) {
		t.Error("a token was asked for")
	}
}

// TestSwitchRefused cannot change anything.
func TestSwitchRefused(t *testing.T) {
	f := newFake(t, "", false)
	b := open(t, f.host, "", desk)
	b.until("a button that cannot be used, and why", `(s => s.disabled && s.title.includes("admin.token_file"))(document.querySelector("#switch"))`)
}

// TestKeyboard switches, goes to another page and starts a trial without a mouse.
func TestKeyboard(t *testing.T) {
	f := newFake(t, token, false)
	b := open(t, f.host, "", desk)
	focus := func(what, condition string) {
		t.Helper()
		for range 40 {
			b.press(tabulator)
			if ask[bool](b, condition) {
				// It can be seen where the focus is.
				if width := ask[string](b, `getComputedStyle(document.activeElement).outlineStyle`); width == "none" {
					t.Errorf("%s: the focus does not show", what)
				}
				return
			}
		}
		t.Fatalf("the focus does not come to %s", what)
	}
	focus("the switch", `document.activeElement.id === "switch"`)
	b.press(" ")
	b.until("the field", `document.activeElement.id === "token"`)
	b.press(token + enter)
	b.switched("native")
	focus("the page of trials", `document.activeElement.hash === "#trial"`)
	b.press(enter)
	b.until("page trial", `document.body.dataset.page === "trial"`)
	focus("the start", `document.activeElement.innerText === "Start the trial"`)
	b.press(enter)
	b.says("#trial-summary", "first has been running since")
}

// TestTrial starts, changes and stops a trial.
func TestTrial(t *testing.T) {
	f := newFake(t, token, false)
	b := open(t, f.host, "#trial", desk)
	b.says("#trial-summary", "No trial is running.")
	b.picture("trial-none")
	b.fill("#trial-name", "taken")
	b.click("#trial-start button[type=submit]")
	b.until("the field", `document.activeElement.id === "token"`)
	b.press(token + enter)
	b.says("#messages", "Not done: there are results of a trial of that name")
	b.expect("400")

	b.fill("#trial-name", "second")
	b.click("#trial-start .arm:nth-child(3) button") // keep leaves
	b.fill("#trial-start .arm:nth-child(2) input[type=number]", "3")
	b.fill("#trial-guardrail", "15")
	b.choose("#trial-assignment", "user")
	b.click("#trial-start button[type=submit]")
	b.says("#trial-summary", "second has been running since")
	b.says("#trial-summary", "assigned by user")
	b.says("#trial-verdicts", "innodb against native")
	b.until("no form", `document.querySelector("#trial-new").hidden`)

	b.fill(`.controls input[name=native]`, "0.5")
	b.click(".controls button[type=submit]")
	b.says("#messages", "The new weights count for sessions to come.")
	b.until("the new weight", `document.querySelector(".controls input[name=native]").value === "0.5"`)

	b.choose("#trial-shape", madeUpShapes()[0].Shape)
	b.until("the words of the table's own verdict", `[...document.querySelectorAll("#trial .note")].some(n => n.innerText.startsWith("innodb: A cycle takes"))`)

	b.click("#trial-stop")
	b.until("the question", `document.querySelector("#confirm-dialog").open`)
	b.press(escape)
	b.until("the question gone", `!document.querySelector("#confirm-dialog").open`)
	b.click("#trial-stop")
	b.until("the question again", `document.querySelector("#confirm-dialog").open`)
	b.click("#confirm-ok")
	b.until("the question answered", `!document.querySelector("#confirm-dialog").open`)
	b.says("#trial-summary", "second was stopped at")
	b.until("the way to another", `!document.querySelector("#trial-new").hidden`)

	var got []string
	for _, line := range f.asked() {
		what, body, _ := strings.Cut(line, " ")
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		sorted, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, what+" "+string(sorted))
	}
	want := []string{
		`start {"arms":[{"name":"native","strategy":"native","weight":1},{"name":"innodb","strategy":"innodb","weight":1},{"name":"keep","strategy":"keep","weight":1}],"assignment":"random","name":"taken"}`,
		`start {"arms":[{"name":"native","strategy":"native","weight":1},{"name":"innodb","strategy":"innodb","weight":3}],"assignment":"user","guardrail":0.15,"name":"second"}`,
		`change {"weights":{"innodb":3,"native":0.5}}`,
		`stop {}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestPhone has every page fit a narrow screen.
func TestPhone(t *testing.T) {
	f := newFake(t, token, false)
	f.trial = madeUpTrial(trial.Spec{Name: "legacy", Assignment: "random", Arms: []trial.ArmSpec{{Name: "native", Strategy: "native", Weight: 1}, {Name: "innodb", Strategy: "innodb", Weight: 1}}})
	b := open(t, f.host, "", look{width: 360, height: 740})
	fits := func(page string) {
		t.Helper()
		wide := ask[[]string](b, `(() => { const out = []; if (document.documentElement.scrollWidth > 360) out.push("page " + document.documentElement.scrollWidth);
			for (const n of document.querySelectorAll("main *")) { const r = n.getBoundingClientRect(); if (r.width > 0 && (r.right > 361 || r.left < -1) && !n.closest("thead, .plot, .shape")) out.push(n.tagName + "." + n.className + "#" + n.id + " " + r.left + ".." + r.right); }
			return out.slice(0, 5) })()`)
		for _, w := range wide {
			t.Errorf("%s does not fit: %s", page, w)
		}
	}
	for _, page := range everyPage {
		b.visit(page)
		fits(page)
		b.picture("phone-" + page)
	}
	b.visit("tables")
	b.click("#tables tbody tr:nth-child(1) summary")
	b.says("#tables tbody tr:nth-child(1) .facts", "CREATE answered here")
	fits("tables, unfolded")
	f.with(func() { f.trial = trial.Report{State: trial.StateNone} })
	b.visit("trial")
	b.says("#trial-summary", "No trial is running.")
	fits("a trial's start")
	b.picture("phone-trial-none")
	// What has to be touched is large enough.
	small := ask[[]string](b, `[...document.querySelectorAll("button, nav a, select, input")].filter(n => n.checkVisibility() && !n.matches(".help") && n.getBoundingClientRect().height < 28).map(n => n.outerHTML)`)
	for _, s := range small {
		t.Errorf("too small for a finger: %s", s)
	}
}
