//go:build realserver

package dashboard

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

var screenshots = flag.String("screenshots", "", "a `folder` that pictures of the pages are put into")

// patience bounds what a test waits for; nothing takes that long unless it never comes.
const patience = 2 * time.Minute

// browser is a running Chromium, shared by all tests.
var browser context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tmpproxy-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	var stop func()
	if browser, stop, err = startBrowser(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	code := m.Run()
	if err := server.StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := process.Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// startBrowser runs the browser of the unpacked packages with their libraries and fonts.
func startBrowser(dir string) (context.Context, func(), error) {
	root, err := server.Obtain(context.Background(), server.Chromium)
	if err != nil {
		return nil, nil, err
	}
	library, err := filepath.Glob(filepath.Join(root, "usr/lib/*/libnss3.so"))
	if err != nil || len(library) != 1 {
		return nil, nil, fmt.Errorf("libraries of the browser: %q, %w", library, err)
	}
	arch := filepath.Base(filepath.Dir(library[0]))
	fonts := filepath.Join(dir, "fonts.conf")
	if err := os.WriteFile(fonts, fmt.Appendf(nil, `<?xml version="1.0"?><fontconfig><dir>%s/usr/share/fonts</dir><cachedir>%s/fonts</cachedir></fontconfig>`, root, dir), 0o600); err != nil {
		return nil, nil, err
	}
	libraries := []string{filepath.Join(root, "usr/lib", arch), filepath.Join(root, "lib", arch), filepath.Join(root, "usr/lib", arch, "pulseaudio")}
	// What it prints is about a system that is not there: buses, graphics.
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(filepath.Join(root, "usr/lib/chromium/chromium-headless-shell")),
		chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.Env("LD_LIBRARY_PATH="+strings.Join(libraries, ":"), "FONTCONFIG_FILE="+fonts, "HOME="+dir),
		chromedp.NoSandbox, // it opens pages of ours alone, and may be run as root
		chromedp.DisableGPU,
		chromedp.Flag("no-proxy-server", true),
		chromedp.WSURLReadTimeout(patience),
	)...)
	ctx, stopBrowser := chromedp.NewContext(allocator)
	stop := func() { stopBrowser(); stopAllocator() }
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start the browser: %w", err)
	}
	return ctx, stop, nil
}

// tab is one page of the browser.
type tab struct {
	t    *testing.T
	ctx  context.Context
	host string // the only one that may be asked

	mu     sync.Mutex
	faults []string // what the page complained about
	asked  []string // addresses
}

// look is how the page is looked at.
type look struct {
	width, height int64
	dark          bool
}

var desk = look{1180, 900, false}

// open opens the page of a host. At the end of the test nothing but expected faults may have been told, and no other host asked.
func open(t *testing.T, host, hash string, l look) *tab {
	t.Helper()
	b := &tab{t: t, host: host}
	ctx, closeTab := chromedp.NewContext(browser, chromedp.WithListener(b.hear))
	ctx, cancel := context.WithTimeout(ctx, 5*patience)
	b.ctx = ctx
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	t.Cleanup(func() {
		cancel()
		closeTab()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, fault := range b.faults {
			t.Errorf("the page complains: %s", fault)
		}
		for _, address := range b.asked {
			if !strings.HasPrefix(address, "http://"+host+"/") {
				t.Errorf("the page asked for %s", address)
			}
		}
		if len(b.asked) < 5 {
			t.Errorf("the page asked only for %q", b.asked)
		}
	})
	b.do(chromedp.EmulateViewport(l.width, l.height), chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, media := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		_, entries := cdp.Call(ctx, tab, log.Enable, cdp.Empty{})
		_, exceptions := cdp.Call(ctx, tab, runtime.Enable, cdp.Empty{})
		_, requests := cdp.Call(ctx, tab, network.Enable, network.EnableParams{})
		return errors.Join(media, entries, exceptions, requests)
	}), chromedp.Navigate("http://"+host+"/"+hash))
	b.until("the first figures", `document.body.dataset.state === "live"`)
	return b
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			var words []string
			for _, a := range e.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			b.faults = append(b.faults, strings.Join(words, " "))
		}
	case *runtime.EventExceptionThrown:
		fault := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			fault += " " + e.ExceptionDetails.Exception.Description
		}
		b.faults = append(b.faults, fault)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.faults = append(b.faults, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// expect takes back the faults that hold a text; there has to be one.
func (b *tab) expect(text string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var others []string
	for _, fault := range b.faults {
		if !strings.Contains(fault, text) {
			others = append(others, fault)
		}
	}
	if len(others) == len(b.faults) {
		b.t.Errorf("nothing was told of %q: %q", text, b.faults)
	}
	b.faults = others
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// ask returns the value of an expression.
func ask[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for an expression to be true.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if ask[bool](b, "!!("+expression+")") {
			return
		}
		if time.Since(begin) > patience {
			b.t.Fatalf("%s never came; the page says\n%s", what, ask[string](b, "document.body.innerText"))
		}
	}
}

// says waits for a node to have a text in it.
func (b *tab) says(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%q in %s", text, selector), fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", selector, text))
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// press presses keys where the focus is.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// visit goes to another page of the dashboard and waits for its answer.
func (b *tab) visit(page string) {
	b.t.Helper()
	b.click(`nav a[href="#` + page + `"]`)
	b.until("page "+page, fmt.Sprintf("document.body.dataset.page === %q", page))
}

// fill replaces what a field holds.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.Focus(chromedp.CSS(selector)))
	ask[any](b, fmt.Sprintf("document.querySelector(%q).select()", selector))
	b.press(text)
}

// picture takes a picture of the whole page, where pictures are wanted.
func (b *tab) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if !bytes.HasPrefix(png, []byte("\x89PNG")) {
		b.t.Fatal("the picture is no PNG")
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

const enter, tabulator, escape = kb.Enter, kb.Tab, kb.Escape

// choose chooses an option, as a user does: the page hears of it.
func (b *tab) choose(selector, value string) {
	b.t.Helper()
	ask[any](b, fmt.Sprintf(`(s => { s.value = %q; s.dispatchEvent(new Event("change", {bubbles: true})); })(document.querySelector(%q))`, value, selector))
}
