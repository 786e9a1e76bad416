package checks

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// built is what a kustomization makes: each kind's objects by name.
type built struct {
	settings map[string]*core.ConfigMap
	pods     map[string]*core.PodTemplateSpec
}

// build runs a kustomization and decodes what comes out into the types of the Kubernetes API, which must know every field.
func build(t *testing.T, folder string) built {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("../kubernetes", folder))
	if err != nil {
		t.Fatal(err)
	}
	b := built{map[string]*core.ConfigMap{}, map[string]*core.PodTemplateSpec{}}
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		strict := func(into any) {
			t.Helper()
			if err := yaml.UnmarshalStrict(text, into); err != nil {
				t.Errorf("%s: %v", r.CurId(), err)
			}
		}
		switch gvk := r.GetGvk(); gvk.ApiVersion() + " " + gvk.Kind {
		case "v1 ConfigMap":
			var o core.ConfigMap
			strict(&o)
			b.settings[o.Name] = &o
		case "apps/v1 Deployment":
			var o apps.Deployment
			strict(&o)
			b.pods[o.Name] = &o.Spec.Template
			for name, value := range o.Spec.Selector.MatchLabels {
				if o.Spec.Template.Labels[name] != value {
					t.Errorf("Deployment %s selects %s=%s, which its pods have not", o.Name, name, value)
				}
			}
		case "batch/v1 Job":
			var o batch.Job
			strict(&o)
			b.pods[o.Name] = &o.Spec.Template
			if p := o.Spec.Template.Spec.RestartPolicy; p != core.RestartPolicyNever && p != core.RestartPolicyOnFailure {
				t.Errorf("Job %s restarts its containers %s", o.Name, p)
			}
		default:
			t.Errorf("%s: a kind that is not expected", r.CurId())
		}
	}
	return b
}

func TestKubernetes(t *testing.T) {
	for folder, c := range map[string]struct{ pod, strategy string }{
		"base":   {"application", "observe"},
		"innodb": {"application", "innodb"},
		"job":    {"report", "observe"},
	} {
		t.Run(folder, func(t *testing.T) {
			b := build(t, folder)
			if len(b.pods) != 1 || len(b.settings) != 1 {
				t.Fatalf("%d pod templates, %d ConfigMaps", len(b.pods), len(b.settings))
			}
			template := b.pods[c.pod]
			if template == nil {
				t.Fatalf("no %s", c.pod)
			}
			checkSidecar(t, b, &template.Spec)
			for _, o := range b.settings {
				if text := o.Data["config.yaml"]; !strings.Contains(text, "\n  strategy: "+c.strategy+"\n") {
					t.Errorf("strategy %s is not set:\n%s", c.strategy, text)
				}
			}
		})
	}
}

// checkSidecar looks at what the API server would refuse or the program could not live with, beyond the names of fields.
func checkSidecar(t *testing.T, b built, pod *core.PodSpec) {
	t.Helper()
	if len(pod.InitContainers) != 1 || pod.InitContainers[0].Name != "tmpproxy" {
		t.Fatalf("init containers: %+v", pod.InitContainers)
	}
	c := &pod.InitContainers[0]
	checkContainer(t, b, pod, c)
	if c.RestartPolicy == nil || *c.RestartPolicy != core.ContainerRestartPolicyAlways {
		t.Error("not a sidecar: the pod would wait for its end")
	}
	if c.StartupProbe == nil || c.StartupProbe.HTTPGet == nil || c.StartupProbe.HTTPGet.Path != "/healthz" {
		t.Error("the containers do not wait for it by /healthz")
	}
	if c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet == nil || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Error("nobody asks /readyz")
	}
}

// TestJobQuit looks at the Job that ends its proxy itself, on clusters that have no sidecars.
func TestJobQuit(t *testing.T) {
	b := build(t, "job-quit")
	pod := &b.pods["report"].Spec
	if len(pod.InitContainers) != 0 || len(pod.Containers) != 2 || pod.Containers[1].Name != "tmpproxy" {
		t.Fatalf("containers: %+v", pod.Containers)
	}
	c := &pod.Containers[1]
	checkContainer(t, b, pod, c)
	set := map[string]string{}
	for _, e := range c.Env {
		set[e.Name] = e.Value
	}
	if set["TMPPROXY_SHUTDOWN_QUITQUITQUIT"] != "true" || set["TMPPROXY_SHUTDOWN_EXIT_ZERO"] != "true" {
		t.Errorf("the proxy cannot be ended, or its end is a failure: %v", set)
	}
	if script := strings.Join(pod.Containers[0].Args, " "); !strings.Contains(script, "-X POST http://127.0.0.1:9104/quitquitquit") {
		t.Errorf("nobody ends the proxy: %s", script)
	}
}

// checkContainer looks at what holds for every container of the proxy.
func checkContainer(t *testing.T, b built, pod *core.PodSpec, c *core.Container) {
	t.Helper()
	if !slices.Equal(c.Args, []string{"serve", "--config=/etc/tmpproxy/config.yaml"}) {
		t.Errorf("arguments %q", c.Args)
	}
	ports := map[string]int32{}
	for _, p := range c.Ports {
		if len(p.Name) > 15 {
			t.Errorf("port name %q is longer than 15", p.Name)
		}
		ports[p.Name] = p.ContainerPort
	}
	for name, probe := range map[string]struct {
		*core.Probe
		path string
	}{"startup": {c.StartupProbe, "/healthz"}, "liveness": {c.LivenessProbe, "/healthz"}, "readiness": {c.ReadinessProbe, "/readyz"}} {
		if probe.Probe == nil && name != "liveness" {
			continue
		}
		if probe.Probe == nil || probe.HTTPGet == nil {
			t.Errorf("no %s probe by HTTP", name)
		} else if probe.HTTPGet.Path != probe.path || ports[probe.HTTPGet.Port.StrVal] != 9104 {
			t.Errorf("%s probe: %s at port %s", name, probe.HTTPGet.Path, &probe.HTTPGet.Port)
		}
	}
	s := c.SecurityContext
	switch {
	case s == nil,
		s.RunAsNonRoot == nil || !*s.RunAsNonRoot,
		s.RunAsUser == nil || *s.RunAsUser == 0,
		s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem,
		s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation,
		s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0,
		s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault:
		t.Errorf("not what the restricted Pod Security Standard and a read-only root ask for: %+v", s)
	}
	volumes := map[string]core.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	at := map[string]string{}
	for _, m := range c.VolumeMounts {
		if _, ok := volumes[m.Name]; !ok {
			t.Errorf("no volume %s", m.Name)
		}
		if !m.ReadOnly {
			t.Errorf("volume %s can be written", m.Name)
		}
		at[m.MountPath] = m.Name
	}
	settings := volumes[at["/etc/tmpproxy"]].ConfigMap
	if settings == nil || b.settings[settings.Name] == nil {
		t.Errorf("/etc/tmpproxy is not the ConfigMap that is made: %+v", settings)
	}
	if secret := volumes[at["/etc/tmpproxy-admin"]].Secret; secret == nil || secret.SecretName != "tmpproxy-admin" {
		t.Errorf("/etc/tmpproxy-admin is not the Secret: %+v", secret)
	}
	if pod.TerminationGracePeriodSeconds == nil || *pod.TerminationGracePeriodSeconds <= 30 {
		t.Error("less time to end than shutdown.grace")
	}
}

// A field that there is not has to be found, or TestKubernetes would say nothing.
func TestStrict(t *testing.T) {
	for text, want := range map[string]string{
		"spec: {template: {spec: {initContainers: [{name: a, restartPolicy: Always}]}}}":  "",
		"spec: {template: {spec: {initContainers: [{name: a, restartpolicie: Always}]}}}": "restartpolicie",
		"spec: {replicas: two}": "replicas",
	} {
		var o apps.Deployment
		err := yaml.UnmarshalStrict([]byte(text), &o)
		if (err != nil) != (want != "") || err != nil && !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
