package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fixed is a Source of one node.
type fixed struct{ node Node }

func (f fixed) UsageNodes() []string { return []string{f.node.Name, "gone"} }

func (f fixed) NodeUsage(name string) (Node, bool) { return f.node, name == f.node.Name }

func (f fixed) Exporter(context.Context, string) ([]byte, error) {
	return []byte("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 7\n"), nil
}

func oneNode() Node {
	return Node{
		Name: "n0", Labels: map[string]string{"pool": "h100"}, Use: Use{Cores: 4.5, CPUSeconds: 1234.5, Memory: 7 << 30},
		Pods: []Pod{{
			Namespace: "team-a", Name: "train-0", UID: "u0", Labels: map[string]string{"app": "train"},
			Containers: []Container{
				{Name: "main", Image: "docker.io/library/pytorch:latest", Started: time.Unix(1700000000, 5e8), Use: Use{4.25, 1000.25, 6 << 30}, MemoryLimit: 8 << 30, CPULimit: 8},
				{Name: "side", Image: "x", Started: time.Unix(1700000000, 0), Use: Use{0.002, 2, 1 << 20}},
			},
		}},
	}
}

func TestAPI(t *testing.T) {
	h := Handler(fixed{oneNode()})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		body, _ := io.ReadAll(w.Result().Body)
		return w.Code, string(body)
	}
	const root = "/apis/metrics.k8s.io/v1beta1"
	for path, want := range map[string]string{
		root + "/nodes": "200 NodeMetricsList 1",
		root + "/nodes?labelSelector=pool%3Dh100":         "200 NodeMetricsList 1",
		root + "/nodes?labelSelector=pool%3Da100":         "200 NodeMetricsList 0",
		root + "/nodes?labelSelector=%28%28":              "400 Status 0",
		root + "/nodes/n0":                                "200 NodeMetrics 0",
		root + "/nodes/n9":                                "404 Status 0",
		root + "/nodes/n9/metrics/resource":               "404 Status 0",
		root + "/nodes/n0/metrics/probes":                 "404 Status 0",
		root + "/pods":                                    "200 PodMetricsList 1",
		root + "/pods?labelSelector=app%21%3Dtrain":       "200 PodMetricsList 0",
		root + "/namespaces/team-a/pods":                  "200 PodMetricsList 1",
		root + "/namespaces/team-b/pods":                  "200 PodMetricsList 0",
		root + "/namespaces/team-a/pods/train-0":          "200 PodMetrics 0",
		root + "/namespaces/team-a/pods/train-1":          "404 Status 0",
		root + "/namespaces/team-a/pods/train-0/anything": "404 Status 0",
		root:                   "200 APIResourceList 0",
		"/apis/metrics.k8s.io": "200 APIGroup 0",
		"/apis":                "200 APIGroupList 0",
		"/metrics":             "404 Status 0",
	} {
		code, body := get(path)
		var got struct {
			Kind  string
			Items []json.RawMessage
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%s: %v in %s", path, err, body)
		}
		if text := fmt.Sprintf("%d %s %d", code, got.Kind, len(got.Items)); text != want {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
	}
	_, body := get(root + "/namespaces/team-a/pods/train-0")
	var pod struct {
		Window     string
		Containers []struct {
			Name  string
			Usage map[string]string
		}
	}
	if err := json.Unmarshal([]byte(body), &pod); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "4250m", "memory": "6Gi"}, pod.Containers[0].Usage); diff != "" || pod.Window != "15s" {
		t.Error(diff, pod.Window)
	}
}

// Only GET is answered.
func TestNothingIsWritten(t *testing.T) {
	h := Handler(fixed{oneNode()})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/apis/metrics.k8s.io/v1beta1/nodes/n0", nil))
		if w.Code < 400 {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

func TestPages(t *testing.T) {
	resource, cadvisor := string(AppendResource(nil, oneNode())), string(AppendCadvisor(nil, oneNode()))
	for page, lines := range map[string][]string{
		resource: {
			`container_cpu_usage_seconds_total{container="main",namespace="team-a",pod="train-0"} 1000.25`,
			`container_start_time_seconds{container="main",namespace="team-a",pod="train-0"} 1.7000000005e+09`,
			`node_memory_working_set_bytes 7.516192768e+09`,
			`pod_cpu_usage_seconds_total{namespace="team-a",pod="train-0"} 1002.25`,
			`resource_scrape_error 0`,
		},
		cadvisor: {
			`container_spec_cpu_quota{container="main",id="/kubepods/podu0/main",image="docker.io/library/pytorch:latest",name="main",namespace="team-a",pod="train-0"} 800000`,
			`container_memory_working_set_bytes{container="side",id="/kubepods/podu0/side",image="x",name="side",namespace="team-a",pod="train-0"} 1.048576e+06`,
		},
	} {
		for _, line := range lines {
			if !strings.Contains(page, "\n"+line+"\n") {
				t.Errorf("no line %s in\n%s", line, page)
			}
		}
		if promtool, err := exec.LookPath("promtool"); err == nil {
			cmd := exec.Command(promtool, "check", "metrics")
			cmd.Stdin = strings.NewReader(page)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("promtool: %v\n%s", err, out)
			}
		}
	}
	evil := oneNode()
	evil.Pods[0].Containers[0].Image = "a\"} 1\nevil 2"
	if page := string(AppendCadvisor(nil, evil)); strings.Contains(page, "\nevil") {
		t.Error("a name broke out of its label")
	}
}
