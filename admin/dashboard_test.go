package admin

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"tmpproxy/rewrite"
)

// files returns the dashboard's own files, by name below dashboard, or those of the library that it uses.
func files(t *testing.T, library bool) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(dashboard, "dashboard", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := dashboard.ReadFile(name)
		if short := strings.TrimPrefix(name, "dashboard/"); strings.HasPrefix(short, "uplot/") == library {
			all[short] = string(text)
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	return all
}

func TestDashboardFiles(t *testing.T) {
	s := New(zaptest.NewLogger(t), options())
	for _, test := range []struct {
		path   string
		status int
		kind   string
		want   string
	}{
		{"/", 200, "text/html; charset=utf-8", "<!doctype html>"},
		{"/dashboard/app.js", 200, "text/javascript; charset=utf-8", "import "},
		{"/dashboard/style.css", 200, "text/css; charset=utf-8", "prefers-color-scheme: dark"},
		{"/dashboard/icon.svg", 200, "image/svg+xml", "<svg "},
		{"/dashboard/uplot/uPlot.iife.min.js", 200, "text/javascript; charset=utf-8", "uPlot"},
		{"/dashboard/uplot/LICENSE", 200, "text/plain; charset=utf-8", "The MIT License"},
		{"/dashboard/", 404, "", ""},
		{"/dashboard/none.js", 404, "", ""},
		{"/dashboard/uplot/fetch.sh", 404, "", ""},
		{"/dashboard/uplot", 404, "", ""},
		{"/index.html", 404, "", ""},
	} {
		w := get(s, "GET", test.path, "localhost")
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: %d", test.path, w.Code)
		}
		if test.status != 200 {
			continue
		}
		h := w.Header()
		if h.Get("Content-Type") != test.kind || h.Get("Content-Security-Policy") != dashboardPolicy || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", test.path, h)
		}
	}
	// The answers for programs may do nothing at all in a browser.
	if policy := get(s, "GET", "/api/sessions", "localhost").Header().Get("Content-Security-Policy"); !strings.Contains(policy, "sandbox") {
		t.Errorf("an answer's policy: %s", policy)
	}
}

// TestDashboardReferences keeps the files together: all that one names is there, and nothing is named that lies elsewhere.
func TestDashboardReferences(t *testing.T) {
	own, library := files(t, false), files(t, true)
	there := func(name string) bool { _, a := own[name]; _, b := library[name]; return a || b }
	reference := regexp.MustCompile(`(?:href|src)="([^"#]+)"|from '([^']+)'`)
	used := map[string]bool{"index.html": true, "uplot/LICENSE": true}
	for name, text := range own {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			target := path.Join(path.Dir(name), m[1]+m[2])
			if name == "index.html" {
				target = strings.TrimPrefix(target, "dashboard/")
			}
			if used[target] = true; !there(target) {
				t.Errorf("%s refers to %s, which is not there", name, target)
			}
		}
		for _, host := range regexp.MustCompile(`(?:https?:)?//[a-z0-9][^\s"']*\.[^\s"']+`).FindAllString(text, -1) {
			if host != "http://www.w3.org/2000/svg" { // a namespace, which nobody asks for
				t.Errorf("%s names %s", name, host)
			}
		}
		for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", " style=", "onclick=\"", "@import", "url("} {
			if strings.Contains(text, forbidden) {
				t.Errorf("%s holds %s", name, forbidden)
			}
		}
	}
	for _, list := range []map[string]string{own, library} {
		for name := range list {
			if !used[name] {
				t.Errorf("nothing refers to %s", name)
			}
		}
	}
}

// TestLibraryVersion has the script that fetches the library speak of the one that is here.
func TestLibraryVersion(t *testing.T) {
	script, err := os.ReadFile("dashboard/uplot/fetch.sh")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^version=([0-9.]+)$`).FindStringSubmatch(string(script))
	begin, _, _ := strings.Cut(files(t, true)["uplot/uPlot.iife.min.js"], "\n")
	if version == nil || !strings.Contains(begin, "(v"+version[1]+")") {
		t.Errorf("version %v, the file begins with %.100s", version, begin)
	}
}

// TestReasonWords has every reason of package rewrite in words.
func TestReasonWords(t *testing.T) {
	text := files(t, false)["reasons.js"]
	for r := rewrite.ReasonNone + 1; int(r) < rewrite.Reasons; r++ {
		if !regexp.MustCompile(`(?m)^  ` + r.String() + `: '`).MatchString(text) {
			t.Errorf("%s is not worded", r)
		}
	}
}
