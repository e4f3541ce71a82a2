package provisioner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// errKilled is what every request gets once the controller that sends it is dead.
var errKilled = errors.New("killed")

// server is an API server as far as a provisioner meets one: names that it makes, versions, preconditions, finalizers and the status beside
// the rest. It can end whoever asks it, before a request is carried out or after it, and then answers nothing more.
type server struct {
	t       *testing.T
	now     time.Time
	objects map[string]map[string]any // by resource, namespace and name, with a slash between them
	made    int
	die     func(write bool) (before, after bool) // nil: never
	dead    bool
	seen    func(verb, key string) // what was written; nil: nobody looks
}

func (s *server) config() *rest.Config {
	return &rest.Config{Host: "https://api.example", Transport: s, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// address is what a path means.
type address struct{ version, resource, namespace, name, sub string }

func (a address) key() string { return a.resource + "/" + a.namespace + "/" + a.name }

func parse(path string) (a address) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	n := 2
	if parts[0] == "apis" {
		n = 3
	}
	a.version, parts = strings.Join(parts[1:n], "/"), parts[n:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		a.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	a.resource, a.name, a.sub = parts[0], parts[1], parts[2]
	return a
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.dead {
		return nil, errKilled
	}
	a, write := parse(req.URL.Path), req.Method != http.MethodGet && !strings.Contains(req.URL.Path, "/events")
	before, after := false, false
	if s.die != nil {
		before, after = s.die(write)
	}
	if before {
		s.dead = true
		return nil, errKilled
	}
	var body map[string]any
	if req.Body != nil {
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	code, reply := s.serve(req.Method, a, body)
	if after {
		s.dead = true
		return nil, errKilled
	}
	text, err := json.Marshal(reply)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), Request: req}, nil
}

func refuse(code int, reason string) (int, any) {
	return code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
}

func (s *server) serve(method string, a address, body map[string]any) (int, any) {
	switch {
	case a.resource == "events":
		return http.StatusCreated, body
	case method == http.MethodGet && a.name == "":
		items := []any{}
		for _, key := range slices.Sorted(maps.Keys(s.objects)) {
			if strings.HasPrefix(key, a.resource+"/"+a.namespace) {
				items = append(items, s.objects[key])
			}
		}
		return http.StatusOK, map[string]any{"apiVersion": a.version, "kind": "List", "metadata": map[string]any{}, "items": items}
	case method == http.MethodPost && a.sub == "eviction":
		return s.remove(a, nil)
	case method == http.MethodPost:
		return s.create(a, body)
	}
	old, there := s.objects[a.key()]
	if !there {
		return refuse(http.StatusNotFound, "NotFound")
	}
	switch method {
	case http.MethodGet:
		return http.StatusOK, old
	case http.MethodDelete:
		return s.remove(a, body)
	case http.MethodPatch:
		next, err := merge(old, body)
		if err != nil {
			return refuse(http.StatusBadRequest, "BadRequest")
		}
		return s.replace(a, old, next, body)
	}
	return s.replace(a, old, body, body)
}

func merge(old, patch map[string]any) (out map[string]any, err error) {
	a, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	c, err := jsonpatch.MergePatch(a, b)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(c, &out)
}

func metaOf(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	return m
}

func (s *server) create(a address, body map[string]any) (int, any) {
	m := metaOf(body)
	s.made++
	if name, _ := m["name"].(string); name != "" {
		a.name = name
	} else {
		a.name = fmt.Sprintf("%s%05d", m["generateName"], s.made)
	}
	if _, there := s.objects[a.key()]; there {
		return refuse(http.StatusConflict, "AlreadyExists")
	}
	m["name"], m["uid"], m["resourceVersion"], m["generation"] = a.name, fmt.Sprint("uid-", s.made), fmt.Sprint(s.made), 1
	m["creationTimestamp"] = s.now.UTC().Format(time.RFC3339)
	if a.namespace != "" {
		m["namespace"] = a.namespace
	}
	s.objects[a.key()] = body
	s.wrote("create", a)
	return http.StatusCreated, body
}

// replace writes next over old, unless wants names another object or another version of it.
func (s *server) replace(a address, old, next, wants map[string]any) (int, any) {
	had, w := metaOf(old), metaOf(wants)
	for _, field := range []string{"uid", "resourceVersion"} {
		if v, _ := w[field].(string); v != "" && v != had[field] {
			return refuse(http.StatusConflict, "Conflict")
		}
	}
	if status := next["status"]; a.sub == "status" {
		next = maps.Clone(old)
		next["status"] = status
	} else if a.resource != "nodes" && a.resource != "configmaps" {
		next["status"] = old["status"]
	}
	m := maps.Clone(metaOf(next))
	next["metadata"] = m
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp"} {
		if m[field] = had[field]; had[field] == nil {
			delete(m, field)
		}
	}
	s.made++
	m["resourceVersion"] = fmt.Sprint(s.made)
	s.objects[a.key()] = next
	if list, _ := m["finalizers"].([]any); m["deletionTimestamp"] != nil && len(list) == 0 {
		delete(s.objects, a.key())
	}
	s.wrote("update", a)
	return http.StatusOK, next
}

func (s *server) remove(a address, body map[string]any) (int, any) {
	old, there := s.objects[a.key()]
	if !there {
		return refuse(http.StatusNotFound, "NotFound")
	}
	if p, _ := body["preconditions"].(map[string]any); p["uid"] != nil && p["uid"] != metaOf(old)["uid"] {
		return refuse(http.StatusConflict, "Conflict")
	}
	if list, _ := metaOf(old)["finalizers"].([]any); len(list) == 0 {
		delete(s.objects, a.key())
	} else if metaOf(old)["deletionTimestamp"] == nil {
		next, m := maps.Clone(old), maps.Clone(metaOf(old))
		s.made++
		m["deletionTimestamp"], m["resourceVersion"] = s.now.UTC().Format(time.RFC3339), fmt.Sprint(s.made)
		next["metadata"] = m
		s.objects[a.key()] = next
	}
	s.wrote("delete", a)
	return http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}
}

func (s *server) wrote(verb string, a address) {
	if s.seen != nil {
		s.seen(verb, a.key())
	}
}

// put has the object as somebody else wrote it.
func put(s *server, resource string, obj any) {
	s.t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		s.t.Fatal(err)
	}
	var u map[string]any
	if err := json.Unmarshal(text, &u); err != nil {
		s.t.Fatal(err)
	}
	m := metaOf(u)
	a := address{resource: resource, name: fmt.Sprint(m["name"])}
	if ns, _ := m["namespace"].(string); ns != "" {
		a.namespace = ns
	}
	s.made++
	m["resourceVersion"] = fmt.Sprint(s.made)
	if m["uid"] == nil || m["uid"] == "" {
		m["uid"] = fmt.Sprint("uid-", s.made)
	}
	if m["creationTimestamp"] == nil {
		m["creationTimestamp"] = s.now.UTC().Format(time.RFC3339)
	}
	s.objects[a.key()] = u
}

// all are the objects of a resource, in order of name.
func all[T any](s *server, resource string) (out []T) {
	s.t.Helper()
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, resource+"/") {
			continue
		}
		text, err := json.Marshal(s.objects[key])
		if err != nil {
			s.t.Fatal(err)
		}
		var x T
		if err := json.Unmarshal(text, &x); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

func nodesOf(s *server) []corev1.Node { return all[corev1.Node](s, "nodes") }
func podsOf(s *server) []corev1.Pod   { return all[corev1.Pod](s, "pods") }
