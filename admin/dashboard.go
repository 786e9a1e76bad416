package admin

import (
	"embed"
	"net/http"
	"path"
	"strings"
)

// dashboard is the page at / with what it loads, all of it from here: nothing is asked of another host.
//
//go:embed dashboard/*.html dashboard/*.css dashboard/*.js dashboard/*.svg dashboard/uplot/*.js dashboard/uplot/*.css dashboard/uplot/LICENSE
var dashboard embed.FS

// dashboardPolicy lets the page run what it loads from here, and nothing that is written into it.
const dashboardPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

var dashboardTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	"":      "text/plain; charset=utf-8",
}

// serveDashboard answers for / and what lies below /dashboard/.
func serveDashboard(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "dashboard/index.html"
	}
	text, err := dashboard.ReadFile(name)
	if err != nil {
		say(w, http.StatusNotFound, "there is no such file")
		return
	}
	h := w.Header()
	h.Set("Content-Type", dashboardTypes[path.Ext(name)])
	h.Set("Content-Security-Policy", dashboardPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	w.Write(text) // an error is the reader's: it has left
}
