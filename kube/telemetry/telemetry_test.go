package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sorted(list []Reading) []Reading {
	slices.SortFunc(list, func(a, b Reading) int { return strings.Compare(a.Namespace+"/"+a.Pod, b.Namespace+"/"+b.Pod) })
	return list
}

// Of a pod's GPUs the busiest counts, MIG instances tell it in another metric, and what no pod has is nobody's. An exporter cannot speak
// for pods of other nodes, and one that is down leaves its pods unknown.
func TestReadingsOfExporters(t *testing.T) {
	pages := map[string]string{
		"/a": `# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",namespace="ns",pod="x",container="c"} 3
DCGM_FI_DEV_GPU_UTIL{gpu="1",namespace="ns",pod="x",container="c"} 41
DCGM_FI_DEV_GPU_UTIL{gpu="2",namespace="",pod="",container=""} 99
DCGM_FI_DEV_GPU_UTIL{gpu="3"} 99
DCGM_FI_DEV_GPU_UTIL{gpu="4",namespace="ns",pod="idle"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="5",namespace="ns",pod="blank"} 9223372036854775794
DCGM_FI_DEV_GPU_TEMP{gpu="4",namespace="ns",pod="idle"} 60
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="6",GPU_I_ID="1",namespace="ns",pod="mig"} 0.004
DCGM_FI_DEV_GPU_UTIL{gpu="7",namespace="ns",pod="elsewhere"} 0
`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := pages[r.URL.Path]
		if !ok {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, text)
	}))
	defer server.Close()
	e := &Exporters{
		Client: server.Client(),
		Pages: func(nodes []string) map[string]string {
			out := make(map[string]string)
			for _, n := range nodes {
				out[n] = server.URL + "/" + n
			}
			return out
		},
		On: func(_, pod, node string) bool { return (pod == "elsewhere") == (node == "b") },
	}
	got, err := e.Read(context.Background(), []string{"a", "b"})
	if err == nil || !strings.Contains(err.Error(), "node b: status 500") {
		t.Errorf("error %v", err)
	}
	want := []Reading{{"ns", "idle", 0}, {"ns", "mig", 1}, {"ns", "x", 41}}
	if diff := cmp.Diff(want, sorted(got)); diff != "" {
		t.Error(diff)
	}
}

// A Prometheus may have renamed the exporter's labels; its own are then about the exporter.
func TestReadingsOfPrometheus(t *testing.T) {
	answer := `{"status":"success","data":{"resultType":"vector","result":[
{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","namespace":"gpu-operator","pod":"nvidia-dcgm-exporter-x","exported_namespace":"ns","exported_pod":"x"},"value":[1763370000.1,"7"]},
{"metric":{"__name__":"DCGM_FI_PROF_GR_ENGINE_ACTIVE","namespace":"ns","pod":"y"},"value":[1763370000.1,"0.5"]},
{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","namespace":"ns","pod":"y"},"value":[1763370000.1,"NaN"]}]}}`
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path + " " + r.URL.Query().Get("query")
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	u, err := ParseURL(server.URL + "/prom/")
	if err != nil {
		t.Fatal(err)
	}
	p := &Prometheus{Client: server.Client(), URL: u}
	got, err := p.Read(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Reading{{"ns", "x", 7}, {"ns", "y", 50}}, sorted(got)); diff != "" {
		t.Error(diff)
	}
	if want := "/prom/api/v1/query " + query; asked != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
	for _, bad := range []string{`{"status":"error","error":"parse error"}`, `<html>`, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}`} {
		answer = bad
		if got, err := p.Read(context.Background(), nil); err == nil {
			t.Errorf("%s: got %v and no error", bad, got)
		}
	}
	for _, bad := range []string{"", "prometheus:9090", "ftp://x", "http://", "http://x?a=b"} {
		if u, err := ParseURL(bad); err == nil {
			t.Errorf("%q is read as %s", bad, u)
		}
	}
}

func FuzzParseVector(f *testing.F) {
	f.Add(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"y"},"value":[1,"0.5"]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := parseVector(strings.NewReader(text))
		if err != nil && samples != nil {
			t.Errorf("samples beside the error %v", err)
		}
		all := make(busiest)
		for _, s := range samples {
			all.add(s)
		}
		for _, r := range all.readings() {
			if r.Percent < 0 || r.Percent > 101 {
				t.Errorf("%+v", r)
			}
		}
	})
}

// A GPU that is broken is told by node and UUID, whichever node the page names; parts of one GPU are one GPU; what DCGM does not know
// is nothing. Of an exporter that does not answer nothing is known.
func TestHealthOfExporters(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/a" {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, `DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-0",Hostname="b",err_code="0"} 0
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-1",Hostname="b"} 79
DCGM_FI_DEV_XID_ERRORS{gpu="2",UUID="GPU-2",GPU_I_ID="1"} 0
DCGM_FI_DEV_XID_ERRORS{gpu="2",UUID="GPU-2",GPU_I_ID="2"} 94
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="3",UUID="GPU-3"} 2
DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="3",UUID="GPU-3"} 1
DCGM_FI_DEV_THERMAL_VIOLATION{gpu="3",UUID="GPU-3"} 5000000000
DCGM_FI_DEV_XID_ERRORS{gpu="4",UUID="GPU-4"} 9223372036854775794
DCGM_FI_DEV_XID_ERRORS{gpu="5"} 79
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0"} 50
`)
	}))
	defer server.Close()
	e := &Exporters{Client: server.Client(), Pages: func(nodes []string) map[string]string {
		out := make(map[string]string)
		for _, n := range nodes {
			out[n] = server.URL + "/" + n
		}
		return out
	}}
	got, err := e.Health(context.Background(), []string{"a", "b"})
	if err == nil || !strings.Contains(err.Error(), "node b: status 500") {
		t.Errorf("error %v", err)
	}
	want := Health{Seen: map[string]int{"a": 4}, GPUs: []GPU{
		{Node: "a", UUID: "GPU-0", Index: "0"},
		{Node: "a", UUID: "GPU-1", Index: "1", Xid: 79},
		{Node: "a", UUID: "GPU-2", Index: "2", Xid: 94},
		{Node: "a", UUID: "GPU-3", Index: "3", Uncorrected: true, RemapFailed: true, Throttled: 5 * time.Second},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A Prometheus tells of what is broken alone, and which nodes it has metrics of.
func TestHealthOfPrometheus(t *testing.T) {
	answers := map[string]string{
		askBroken: `{"metric":{"__name__":"DCGM_FI_DEV_XID_ERRORS","Hostname":"a","UUID":"GPU-1","gpu":"1"},"value":[1,"48"]}`,
		askHot:    `{"metric":{"hostname":"a","UUID":"GPU-2","gpu":"2"},"value":[1,"45000000000"]}`,
		askSeen:   `{"metric":{"Hostname":"a"},"value":[1,"8"]},{"metric":{"node":"b"},"value":[1,"8"]},{"metric":{},"value":[1,"8"]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, answers[r.URL.Query().Get("query")])
	}))
	defer server.Close()
	u, err := ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&Prometheus{Client: server.Client(), URL: u}).Health(context.Background(), nil)
	want := Health{Seen: map[string]int{"a": 8, "b": 8}, GPUs: []GPU{
		{Node: "a", UUID: "GPU-1", Index: "1", Xid: 48}, {Node: "a", UUID: "GPU-2", Index: "2", Hot: true},
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
