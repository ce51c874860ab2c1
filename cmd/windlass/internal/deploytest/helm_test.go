package deploytest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/windlass-go/windlass/session"
)

// object is what of a rendered object is looked at.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     podSpec
}

// podSpec is a pod's own, or has a template with one.
type podSpec struct {
	Template *struct{ Spec podSpec }

	TerminationGracePeriodSeconds int
	AutomountServiceAccountToken  *bool
	SecurityContext               struct {
		RunAsNonRoot   bool
		SeccompProfile struct{ Type string }
	}
	Containers []container
}

type container struct {
	Name            string
	Command, Args   []string
	Env             []struct{ Name string }
	SecurityContext struct {
		AllowPrivilegeEscalation *bool
		ReadOnlyRootFilesystem   bool
		Capabilities             struct{ Drop []string }
	}
	Resources                     struct{ Limits map[string]any }
	LivenessProbe, ReadinessProbe *struct {
		HTTPGet struct {
			Path        string
			HTTPHeaders []struct{ Name, Value string }
		}
	}
}

// rendered are the objects of a rendered chart.
func rendered(t *testing.T, path string) (objects []object) {
	t.Helper()
	for document := range strings.SplitSeq(read(t, path), "\n---\n") {
		var raw map[string]any
		if err := yaml.Unmarshal([]byte(document), &raw); err != nil {
			t.Fatalf("%s: %v in %s", path, err, document)
		}
		if raw == nil {
			continue
		}
		if raw["kind"] != "Deployment" && raw["kind"] != "Pod" {
			raw["spec"] = nil // of another shape
		}
		content, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		var o object
		if err := json.Unmarshal(content, &o); err != nil {
			t.Fatalf("%s: %v in %s", path, err, document)
		}
		objects = append(objects, o)
	}
	return objects
}

func TestChart_HasAllThatItSays(t *testing.T) {
	for name, want := range map[string][]string{
		"minimal": {"Deployment w-windlass-node", "Pod w-windlass-doctor", "PodDisruptionBudget w-windlass-node", "ServiceAccount w-windlass"},
		"everything": {
			"Deployment w-windlass-node", "Deployment w-windlass-serve", "HorizontalPodAutoscaler w-windlass-node", "Ingress w-windlass-serve",
			"NetworkPolicy w-windlass-node", "NetworkPolicy w-windlass-serve", "Pod w-windlass-doctor",
			"PodDisruptionBudget w-windlass-node", "PodDisruptionBudget w-windlass-serve", "Service w-windlass-node-metrics", "Service w-windlass-serve",
			"ServiceAccount w-windlass", "ServiceMonitor w-windlass-node", "ServiceMonitor w-windlass-serve",
		},
	} {
		var got []string
		for _, o := range rendered(t, "helm/rendered/"+name+".yaml") {
			got = append(got, o.Kind+" "+o.Metadata.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has\n%q, want\n%q", name, got, want)
		}
	}
}

func TestChart_UsesWhatTheProgramHasAndKeepsItSafe(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(deploy, "helm/rendered/*.yaml"))
	if err != nil || len(paths) < 2 {
		t.Fatalf("there is %q, %v", paths, err)
	}
	for _, path := range paths {
		if path, err = filepath.Rel(deploy, path); err != nil {
			t.Fatal(err)
		}
		checkVariables(t, path, read(t, path))
		for _, o := range rendered(t, path) {
			pod := o.Spec
			if pod.Template != nil {
				pod = pod.Template.Spec
			}
			if len(pod.Containers) == 0 {
				continue
			}
			where := path + " " + o.Kind + " " + o.Metadata.Name
			if !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" ||
				pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
				t.Errorf("%s: the pod may do too much: %+v", where, pod)
			}
			for _, c := range pod.Containers {
				checkContainer(t, where, c)
				if c.Args[0] == "node" {
					checkGrace(t, where, c.Args, pod.TerminationGracePeriodSeconds)
				}
			}
		}
	}
}

func checkContainer(t *testing.T, where string, c container) {
	t.Helper()
	s := c.SecurityContext
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("%s: the container may do too much: %+v", where, s)
	}
	if _, limited := c.Resources.Limits["cpu"]; limited {
		t.Errorf("%s: the processor is limited, which delays the timers that end claims", where)
	}
	if !slices.Equal(c.Command, []string{"/windlass"}) {
		t.Errorf("%s: it runs %q", where, c.Command)
	}
	checkFlags(t, where, c.Args[0], strings.Join(c.Args, "\n"))
	// Values are read before help is shown.
	if out, err := windlass(t, append(slices.Clone(c.Args), "--help")...); err != nil {
		t.Errorf("%s: windlass %q: %v: %s", where, c.Args, err, out)
	}
	hosts := []string{"localhost"} // a node's
	if c.Args[0] == "serve" {
		hosts = nil
		for _, arg := range c.Args {
			if host, ok := strings.CutPrefix(arg, "--host="); ok {
				hosts = append(hosts, host)
			}
		}
	}
	if c.Args[0] == "doctor" {
		return
	}
	if c.LivenessProbe == nil || c.ReadinessProbe == nil {
		t.Fatalf("%s: it has no probes", where)
	}
	for suffix, probe := range map[string]string{"/livez": c.LivenessProbe.HTTPGet.Path, "/readyz": c.ReadinessProbe.HTTPGet.Path} {
		if !strings.HasSuffix(probe, suffix) {
			t.Errorf("%s: it is probed at %s", where, probe)
		}
	}
	for _, headers := range [][]struct{ Name, Value string }{c.LivenessProbe.HTTPGet.HTTPHeaders, c.ReadinessProbe.HTTPGet.HTTPHeaders} {
		if len(headers) != 1 || headers[0].Name != "Host" || !slices.Contains(hosts, headers[0].Value) {
			t.Errorf("%s: a probe with %v is refused: the server is called %q", where, headers, hosts)
		}
	}
}

// checkGrace sees that a node has the time to stop its handlers and to leave.
func checkGrace(t *testing.T, where string, args []string, seconds int) {
	t.Helper()
	for _, arg := range args {
		text, ok := strings.CutPrefix(arg, "--session-ttl=")
		if !ok {
			continue
		}
		ttl, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		if least := session.Derive(ttl).Grace + 5*time.Second; time.Duration(seconds)*time.Second < least {
			t.Errorf("%s: it has %d s to end, with a TTL of %v it needs more than %v", where, seconds, ttl, least)
		}
		return
	}
	t.Errorf("%s: it has no --session-ttl", where)
}
