package scheduler

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// oldQueue is a queue of the kind that BerthQueue replaced, and newQueue one of BerthQueue, both as JSON.
func oldQueue(name, spec, status string) (path, text string) {
	return oldQueuesPath + "/" + name, queueText("Queue", name, spec, status)
}

func newQueue(name, spec, status string) (path, text string) {
	return queuesPath + "/" + name, queueText(v1alpha1.QueueKind, name, spec, status)
}

func queueText(kind, name, spec, status string) string {
	s := `{"apiVersion":"berth.dev/v1alpha1","kind":"` + kind + `","metadata":{"name":"` + name + `","labels":{"a":"b"}},"spec":` + spec
	if status != "" {
		s += `,"status":` + status
	}
	return s + "}"
}

const (
	oldKindText = `{"metadata":{"name":"queues.berth.dev"},"spec":{"group":"berth.dev","names":{"plural":"queues","shortNames":["bq"]},"versions":[{"name":"v1alpha1"}]}}`
	quota8      = `{"resources":[{"name":"nvidia.com/gpu","quota":8}]}`
	quota4      = `{"resources":[{"name":"nvidia.com/gpu","quota":4}]}`
	used        = `{"gpuHours":"12.5"}`
)

// What becomes of the queues of a cluster that an older Berth ran.
func TestOldQueuesAreConverted(t *testing.T) {
	for _, c := range []struct {
		name   string
		has    func(objectServer)
		want   map[string]string // BerthQueues: spec and status
		stays  bool              // the older kind
		warned string
	}{
		{"none", func(s objectServer) {}, map[string]string{"default": quota0 + " "}, false, ""},
		{"two and the default", func(s objectServer) {
			s[oldQueueDefinition] = oldKindText
			s.add(oldQueue("a", quota8, used))
			s.add(oldQueue("b", quota4, ""))
			s.add(oldQueue("default", quota4, ""))
		}, map[string]string{"a": quota8 + " " + used, "b": quota4 + " ", "default": quota4 + " "}, false, ""},
		{"interrupted before the status", func(s objectServer) {
			s[oldQueueDefinition] = oldKindText
			s.add(oldQueue("a", quota8, used))
			s.add(newQueue("a", quota8, ""))
		}, map[string]string{"a": quota8 + " " + used, "default": quota0 + " "}, false, ""},
		{"in use already", func(s objectServer) {
			s[oldQueueDefinition] = oldKindText
			s.add(oldQueue("a", quota8, used))
			s.add(newQueue("a", quota8, `{"gpuHours":"13"}`))
		}, map[string]string{"a": quota8 + ` {"gpuHours":"13"}`, "default": quota0 + " "}, false, ""},
		{"another of the same name", func(s objectServer) {
			s[oldQueueDefinition] = oldKindText
			s.add(oldQueue("a", quota8, ""))
			s.add(newQueue("a", quota4, ""))
		}, map[string]string{"a": quota4 + " ", "default": quota0 + " "}, true, "queues=a"},
		{"about to go", func(s objectServer) {
			s[oldQueueDefinition] = strings.Replace(oldKindText, `{"name"`, `{"deletionTimestamp":"2026-11-16T00:00:00Z","name"`, 1)
			s.add(oldQueue("a", quota8, ""))
		}, map[string]string{"default": quota0 + " "}, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := make(objectServer)
			c.has(s)
			client := s.serve(t)
			for range 2 { // the second time changes nothing
				var log bytes.Buffer
				if err := installQueues(t.Context(), client, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, s.queues(t)); diff != "" {
					t.Error(diff)
				}
				if _, there := s[oldQueueDefinition]; there != c.stays {
					t.Errorf("the older kind is there: %t", there)
				}
				if warned := strings.Contains(log.String(), "level=WARN"); warned != (c.warned != "") || !strings.Contains(log.String(), c.warned) {
					t.Errorf("log: %s", log.String())
				}
			}
		})
	}
}

const quota0 = `{"resources":[{"name":"nvidia.com/gpu","quota":"0"}]}`

// objectServer is an API server's objects as JSON, by path.
type objectServer map[string]string

func (s objectServer) add(path, text string) { s[path] = text }

// queues are the spec and the status of each BerthQueue.
func (s objectServer) queues(t *testing.T) map[string]string {
	out := make(map[string]string)
	for path, text := range s {
		var q struct{ Spec, Status json.RawMessage }
		if err := json.Unmarshal([]byte(text), &q); err != nil {
			t.Fatal(err)
		}
		if name, ok := strings.CutPrefix(path, queuesPath+"/"); ok {
			out[name] = string(q.Spec) + " " + string(q.Status)
		}
	}
	return out
}

func (s objectServer) serve(t *testing.T) rest.Interface {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		code, text := s.answer(t, r)
		w.WriteHeader(code)
		io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client.Discovery().RESTClient()
}

func (s objectServer) answer(t *testing.T, r *http.Request) (code int, text string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	path, _ := strings.CutSuffix(r.URL.Path, "/status")
	text, there := s[path]
	switch {
	case r.Method == http.MethodGet && (path == oldQueuesPath || path == queuesPath):
		return http.StatusOK, s.list(path)
	case r.Method == http.MethodPost:
		var o struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(body, &o); err != nil {
			t.Error(err)
		}
		if path += "/" + o.Metadata.Name; s[path] != "" {
			return http.StatusConflict, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409}`
		}
		s[path] = string(body)
		return http.StatusCreated, string(body)
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/apply-patch+yaml":
		return http.StatusOK, `{}`
	case !there:
		return http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	case r.Method == http.MethodPatch:
		merged, err := jsonpatch.MergePatch([]byte(text), body)
		if err != nil {
			t.Error(err)
		}
		s[path] = string(merged)
	case r.Method == http.MethodDelete:
		delete(s, path)
		maps.DeleteFunc(s, func(p, _ string) bool { return path == oldQueueDefinition && strings.HasPrefix(p, oldQueuesPath+"/") })
	}
	return http.StatusOK, text
}

func (s objectServer) list(path string) string {
	var items []string
	for _, p := range slices.Sorted(maps.Keys(s)) {
		if strings.HasPrefix(p, path+"/") {
			items = append(items, s[p])
		}
	}
	return `{"apiVersion":"berth.dev/v1alpha1","kind":"List","items":[` + strings.Join(items, ",") + `]}`
}
