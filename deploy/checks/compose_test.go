package checks

import (
	"context"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

// The compose file is valid by the Compose Specification's own schema, and says what the program needs.
func TestCompose(t *testing.T) {
	load := func(environment ...string) error {
		o, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithEnv(environment), cli.WithProfiles([]string{"application"}))
		if err != nil {
			return err
		}
		p, err := o.LoadProject(context.Background())
		if err != nil {
			return err
		}
		proxy, err := p.GetService("tmpproxy")
		if err != nil {
			return err
		}
		if !proxy.ReadOnly || proxy.User != "65532:65532" || len(proxy.CapDrop) != 1 || proxy.CapDrop[0] != "ALL" {
			t.Errorf("tmpproxy: read only %v, user %s, dropped capabilities %v", proxy.ReadOnly, proxy.User, proxy.CapDrop)
		}
		if stop := proxy.StopGracePeriod; stop == nil || stop.String() != "45s" {
			t.Errorf("tmpproxy may take %v to end", stop)
		}
		for _, port := range proxy.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("port %s is published at %q", port.Published, port.HostIP)
			}
		}
		for _, name := range []string{"mysql", "application"} {
			if _, err := p.GetService(name); err != nil {
				return err
			}
		}
		return nil
	}
	if err := load("MYSQL_ROOT_PASSWORD=x"); err != nil {
		t.Error(err)
	}
	if err := load(); err == nil {
		t.Error("taken without a password")
	}
}
