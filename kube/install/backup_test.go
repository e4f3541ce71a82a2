package install

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// store is an API server with queues, whose specs and statuses are written apart, as the real one's.
type store struct {
	objects map[string]map[string]any // by name
	version int
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const queues = "/apis/berth.dev/v1alpha1/berthqueues"
	w.Header().Set("Content-Type", "application/json")
	rest, ok := strings.CutPrefix(r.URL.Path, queues)
	name, part, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	have := s.objects[name]
	fail := func(code int, reason string) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason})
	}
	switch {
	case !ok || name != "" && have == nil && r.Method != http.MethodPost:
		fail(404, "NotFound")
		return
	case r.Method == http.MethodGet && name == "":
		var items []any
		for _, o := range s.objects {
			items = append(items, o)
		}
		json.NewEncoder(w).Encode(map[string]any{"apiVersion": "berth.dev/v1alpha1", "kind": "BerthQueueList", "items": items})
		return
	case r.Method != http.MethodGet:
		var body map[string]any
		json.NewDecoder(r.Body).Decode(&body)
		meta := body["metadata"].(map[string]any)
		if have != nil && meta["resourceVersion"] != have["metadata"].(map[string]any)["resourceVersion"] {
			fail(409, "Conflict")
			return
		}
		next := map[string]any{}
		for k, v := range have {
			next[k] = v
		}
		if part == "status" {
			next["status"] = body["status"]
		} else {
			for k, v := range body {
				if k != "status" {
					next[k] = v
				}
			}
			name = meta["name"].(string)
		}
		s.version++
		m := map[string]any{"uid": "u"}
		for k, v := range next["metadata"].(map[string]any) {
			m[k] = v
		}
		m["resourceVersion"] = strings.Repeat("x", s.version)
		next["metadata"] = m
		if r.URL.Query().Get("dryRun") == "" {
			s.objects[name] = next
		}
		have = next
	}
	json.NewEncoder(w).Encode(have)
}

func (s *store) client(t *testing.T) rest.Interface {
	t.Helper()
	at := httptest.NewServer(s)
	t.Cleanup(at.Close)
	c, err := kubernetes.NewForConfig(&rest.Config{Host: at.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c.Discovery().RESTClient()
}

// What one cluster had, status included, another one has, whether the queue was there before or not.
func TestRestoreGivesBackWhatWasBackedUp(t *testing.T) {
	ctx := context.Background()
	status := map[string]any{"spending": map[string]any{"totalSeconds": 7.0}, "promises": []any{map[string]any{"workload": "a/b"}}}
	queue := func(quota float64, status map[string]any) map[string]any {
		o := map[string]any{"apiVersion": "berth.dev/v1alpha1", "kind": "BerthQueue", "metadata": map[string]any{"name": "research", "uid": "old", "resourceVersion": "9"}, "spec": map[string]any{"weight": quota}}
		if status != nil {
			o["status"] = status
		}
		return o
	}
	from := &store{objects: map[string]map[string]any{"research": queue(3, status)}}
	text, n, err := Backup(ctx, from.client(t))
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if strings.Contains(string(text), "resourceVersion") || strings.Contains(string(text), "uid") {
		t.Errorf("the backup has what belongs to its cluster:\n%s", text)
	}
	list, err := ReadBackup(text)
	if err != nil {
		t.Fatal(err)
	}
	for want, to := range map[string]*store{
		"created":  {objects: map[string]map[string]any{}},
		"replaced": {objects: map[string]map[string]any{"research": queue(1, nil)}},
	} {
		var did []string
		if err := Restore(ctx, to.client(t), list, false, func(r Result) { did = append(did, r.Object.String()+" "+r.Did) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"BerthQueue research " + want}, did); diff != "" {
			t.Error(diff)
		}
		got := to.objects["research"]
		if diff := cmp.Diff(map[string]any{"weight": 3.0}, got["spec"]); diff != "" {
			t.Errorf("%s: %s", want, diff)
		}
		if diff := cmp.Diff(any(status), got["status"]); diff != "" {
			t.Errorf("%s: %s", want, diff)
		}
	}
	dry := &store{objects: map[string]map[string]any{"research": queue(1, nil)}}
	if err := Restore(ctx, dry.client(t), list, true, func(Result) {}); err != nil {
		t.Fatal(err)
	}
	if dry.objects["research"]["status"] != nil || dry.objects["research"]["spec"].(map[string]any)["weight"] != 1.0 {
		t.Errorf("a dry run wrote: %v", dry.objects)
	}
}

// A backup of which a bit or the end was lost restores nothing: numbers that are wrong by a digit look like any others.
// What people edit by hand, and what was written before backups had a digest, is read.
func TestDamagedBackupsAreRefused(t *testing.T) {
	from := &store{objects: map[string]map[string]any{"research": {
		"apiVersion": "berth.dev/v1alpha1", "kind": "BerthQueue", "metadata": map[string]any{"name": "research"}, "status": map[string]any{"spending": map[string]any{"totalSeconds": 72041.0}},
	}}}
	text, _, err := Backup(context.Background(), from.client(t))
	if err != nil {
		t.Fatal(err)
	}
	body, digest := strings.TrimRight(string(text), "\n"), ""
	body, digest = body[:strings.LastIndexByte(body, '\n')+1], body[strings.LastIndexByte(body, '\n')+1:]
	for i := range len(body) {
		for bit := range 8 {
			damaged := bytes.Clone(text)
			damaged[i] ^= 1 << bit
			if _, err := ReadBackup(damaged); err == nil {
				t.Errorf("with bit %d of byte %d flipped it is read: %q", bit, i, damaged)
			}
		}
	}
	for i := range len(body) - len("\n") {
		if _, err := ReadBackup(text[:i]); err == nil {
			t.Errorf("its first %d bytes are read: %q", i, text[:i])
		}
	}
	edited := strings.Replace(body, "72041", "72042", 1)
	if _, err := ReadBackup([]byte(edited + digest)); err == nil || !strings.Contains(err.Error(), "delete its last line") {
		t.Errorf("%v", err)
	}
	for _, good := range []string{edited, body, strings.TrimRight(string(text), "\n"), string(text)} {
		if list, err := ReadBackup([]byte(good)); err != nil || len(list) != 1 {
			t.Errorf("%v: %q", err, good)
		}
	}
}

func TestReadBackupRefuses(t *testing.T) {
	queue := "\n- {apiVersion: berth.dev/v1alpha1, kind: BerthQueue, metadata: {name: a}}"
	for text, want := range map[string]string{
		"":          `it is a "", want a List`,
		"kind: Pod": `it is a "Pod"`,
		"{":         "not a backup",
		"[1]":       "not a backup",
		"kind: List\nitems: [{kind: Pod, apiVersion: v1, metadata: {name: a}}]":                        `object 1 of the backup: "Pod" of "v1"`,
		"kind: List\nitems: [{kind: BerthQueue, apiVersion: berth.dev/v1, metadata: {name: a}}]":       `"BerthQueue" of "berth.dev/v1"`,
		"kind: List\nitems: [{kind: BerthQueue, apiVersion: berth.dev/v1alpha1}]":                      "no metadata",
		"kind: List\nitems: [{kind: BerthQueue, apiVersion: berth.dev/v1alpha1, metadata: {name: 7}}]": "no name",
		"kind: List\nitems:" + queue + queue:                                                           "the backup has BerthQueue a twice",
	} {
		if _, err := ReadBackup([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadBackup(f *testing.F) {
	f.Add([]byte("kind: List\nitems:\n- {apiVersion: berth.dev/v1alpha1, kind: BerthQueue, metadata: {name: a, labels: {b: c}}, status: {}}"))
	f.Add([]byte(`{"kind":"List","items":[{"metadata":{"name":1}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := ReadBackup(text)
		if err != nil {
			return
		}
		for _, o := range list {
			if o.GetName() == "" || o.GetUID() != "" {
				t.Errorf("%v", o)
			}
		}
	})
}
