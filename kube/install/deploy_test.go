package install

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write deploy/manifests and deploy/chart anew")

const deploy = "../../deploy"

// released is the version that deploy/ is of: cli.Version, which this package may not import. The chart has it too.
const released = "v0.1.0-dev"

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join(deploy, name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not what Objects makes; write it anew with: go test ./kube/install -update\n%s", file, diff)
	}
}

func manifests(t *testing.T, v Values) (all, optional []byte) {
	t.Helper()
	list, err := Objects(v)
	if err != nil {
		t.Fatal(err)
	}
	return Manifests(list)
}

func TestManifestsAreWhatIsInstalled(t *testing.T) {
	all, optional := manifests(t, Defaults(released))
	golden(t, "manifests/berth.yaml", all)
	golden(t, "manifests/berth-1.36.yaml", optional)
}

// kubectl and Helm fail on a kind that the cluster does not serve, so the file for every Kubernetes has none that is not served before 1.36.
func TestManifestsForEveryKubernetes(t *testing.T) {
	all, optional := manifests(t, Defaults(released))
	for key, o := range documents(t, all) {
		if strings.HasPrefix(key, "Mutating") {
			t.Errorf("%s is not served before 1.36: %v", key, o)
		}
	}
	for key := range documents(t, optional) {
		if !strings.HasPrefix(key, "Mutating") {
			t.Errorf("%s is served by every supported Kubernetes, and is left out of the file for all", key)
		}
	}
}

// chosen are the values of the chart: what stands in the objects where one goes, and what stands in the template.
var chosen = []struct{ mark, field string }{
	{"CHOSEN-IMAGE", `{{ printf "%q" .Values.image }}`},
	{"98765", `{{ .Values.replicas }}`},
	{"98764m", `{{ printf "%q" .Values.cpu }}`},
	{"98763Mi", `{{ printf "%q" .Values.memory }}`},
	{"CHOSEN-CONFIG", `{{ printf "%q" .Values.config }}`},
	{"CHOSEN-FAMILY", `{{ .Values.addressFamily }}`},
}

// The chart's template is the same objects with the values left open.
func TestChartIsWhatIsInstalled(t *testing.T) {
	all, optional := manifests(t, Values{
		Image: chosen[0].mark, Replicas: 98765, CPU: resource.MustParse(chosen[2].mark), Memory: resource.MustParse(chosen[3].mark), Family: "CHOSEN-FAMILY", Config: "CHOSEN-CONFIG",
	})
	text := string(all) + "{{- if .Capabilities.APIVersions.Has \"admissionregistration.k8s.io/v1/MutatingAdmissionPolicy\" }}\n" + string(optional) + "{{- end }}\n"
	if strings.Contains(string(all)+string(optional), "{{") {
		t.Fatal("Helm would take a part of an object for a template")
	}
	for _, c := range chosen {
		if !strings.Contains(text, c.mark) {
			t.Errorf("%s is nowhere", c.mark)
		}
		text = strings.ReplaceAll(text, c.mark, c.field)
	}
	golden(t, "chart/templates/berth.yaml", []byte(text))
}

// served are the kinds of a cluster, as Helm shows them to a template.
type served []string

func (s served) Has(kind string) bool { return slices.Contains(s, kind) }

// With its own values the chart is the manifests that the cluster can take, object by object. Helm's language is text/template, and
// the template uses nothing that Helm adds to it.
func TestChartRendersTheManifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deploy, "chart/templates/berth.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	readYAML(t, "chart/values.yaml", &values)
	parsed, err := template.New("berth").Option("missingkey=error").Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	all, optional := manifests(t, Defaults(released))
	for _, c := range []struct {
		kinds served
		want  []byte
	}{
		{nil, all},
		{served{"admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"}, append(slices.Clone(all), optional...)},
	} {
		var out bytes.Buffer
		if err := parsed.Execute(&out, map[string]any{"Values": values, "Capabilities": map[string]any{"APIVersions": c.kinds}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(documents(t, c.want), documents(t, out.Bytes())); diff != "" {
			t.Errorf("served %v: %s", c.kinds, diff)
		}
	}
	var chart struct{ Version, AppVersion string }
	readYAML(t, "chart/Chart.yaml", &chart)
	if chart.AppVersion != released || "v"+chart.Version != released {
		t.Errorf("the chart is of %s and %s, want %s", chart.Version, chart.AppVersion, released)
	}
}

// Every value has a line in the schema, which allows no others.
func TestChartSchemaKnowsEveryValue(t *testing.T) {
	var schema struct {
		AdditionalProperties *bool
		Properties           map[string]any
	}
	readYAML(t, "chart/values.schema.json", &schema)
	values := map[string]any{}
	readYAML(t, "chart/values.yaml", &values)
	for name := range values {
		if schema.Properties[name] == nil {
			t.Errorf("%s has no schema", name)
		}
	}
	if len(schema.Properties) != len(values) || schema.AdditionalProperties == nil || *schema.AdditionalProperties {
		t.Errorf("the schema has %d values, the chart %d; others must not be allowed", len(schema.Properties), len(values))
	}
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, name))
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func documents(t *testing.T, text []byte) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, d := range strings.Split(string(text), "\n---\n")[1:] {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(d), &o); err != nil {
			t.Fatal(err)
		}
		m := o["metadata"].(map[string]any)
		out[fmt.Sprint(o["kind"], " ", m["namespace"], "/", m["name"])] = o
	}
	return out
}
