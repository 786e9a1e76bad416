package config

import (
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const example = "../config.yaml"

var update = flag.Bool("update", false, "write config.yaml anew from the table of keys")

// render writes the table as the documented file.
func render() string {
	var b strings.Builder
	b.WriteString("# tmpproxy's settings, each with its default. A flag (--rewrite.strategy=keep) wins over the environment\n" +
		"# (TMPPROXY_REWRITE_STRATEGY=keep), the environment over this file, this file over the default.\n" +
		"# Lists are comma-separated in flags and variables. Durations and sizes carry a unit: 500ms, 5s, 10m; 512B, 64KiB, 1MiB.\n" +
		"# When it changes, and on SIGHUP, the file is read again; what is marked [live] takes effect at once, the rest at the next start.\n")
	var open []string
	for _, k := range table {
		path := strings.Split(k.Name, ".")
		sections := path[:len(path)-1]
		same := 0
		for same < len(sections) && same < len(open) && sections[same] == open[same] {
			same++
		}
		if same == 0 {
			b.WriteByte('\n')
		}
		for i := same; i < len(sections); i++ {
			b.WriteString(strings.Repeat("  ", i) + sections[i] + ":\n")
		}
		open = sections
		indent := strings.Repeat("  ", len(sections))
		mark := ""
		if k.Live {
			mark = " [live]"
		}
		b.WriteString(indent + "# " + k.Usage + mark + "\n")
		value := k.Default
		switch {
		case k.kind == "list":
			value = "[" + strings.ReplaceAll(value, ",", ", ") + "]"
		case value == "":
			value = `""`
		}
		b.WriteString(indent + path[len(path)-1] + ": " + value + "\n")
	}
	return b.String()
}

func TestFileAgreesWithTable(t *testing.T) {
	want := render()
	if *update {
		if err := os.WriteFile(example, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("config.yaml is not what the table of keys says; go test ./config -update writes it\n%s", got)
	}
}

// TestFileIsDefault reads the file by other means than the ones it was written by.
func TestFileIsDefault(t *testing.T) {
	c, err := Load(example, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.File() != example {
		t.Errorf("read from %q", c.File())
	}
	for _, k := range table {
		if c.Source(k) != "config.yaml" || Default().Source(k) != "default" {
			t.Errorf("%s comes from %s, and by default from %s", k.Name, c.Source(k), Default().Source(k))
		}
	}
	c.origin = origin{}
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("config.yaml gives\n%+v\nand the code's defaults are\n%+v", c, Default())
	}

	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	var walk func(section *yaml.Node, path string)
	walk = func(section *yaml.Node, path string) {
		for i := 0; i+1 < len(section.Content); i += 2 {
			name, value := section.Content[i], section.Content[i+1]
			if value.Kind == yaml.MappingNode {
				walk(value, path+name.Value+".")
				continue
			}
			documented[path+name.Value] = name.HeadComment
		}
	}
	walk(root.Content[0], "")
	for _, k := range table {
		comment, ok := documented[k.Name]
		if !ok {
			t.Errorf("%s is not in config.yaml", k.Name)
		} else if strings.Count(comment, "\n") != 0 || len(comment) < len("# x") {
			t.Errorf("%s has no comment of one line: %q", k.Name, comment)
		}
		delete(documented, k.Name)
	}
	for name := range documented {
		t.Errorf("config.yaml names %s, which is no key", name)
	}
}
