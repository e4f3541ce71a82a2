package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

// scripted answers what a test says.
type scripted struct {
	queues    answer.QueueList
	workloads answer.WorkloadList
	err       error
	why, fit  any
	capacity  any
	steps     []bill.Step // of the decision log
	hangs     bool        // the cluster: whoever reads it waits
}

func (s *scripted) Line(context.Context) (answer.QueueList, answer.WorkloadList, error) {
	return s.queues, s.workloads, s.err
}
func (s *scripted) Why(context.Context, facts.Ref) (any, error) { return s.why, s.err }
func (s *scripted) Fit(context.Context, Shape) (any, error)     { return s.fit, s.err }
func (s *scripted) Capacity(ctx context.Context, _ string) (any, []byte, error) {
	if s.hangs {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	return s.capacity, []byte("pool,paid\na,8\n"), s.err
}
func (s *scripted) Happened(context.Context, time.Time, time.Time) (any, error) {
	if len(s.steps) == 0 {
		return nil, errNoLog
	}
	return map[string]any{"Items": []any{
		map[string]any{"now": s.steps[0].Now, "what": "starts", "workload": "team-0/gang/train-3", "kind": "fits", "placements": []any{map[string]string{"node": "gpu-0001"}}},
		map[string]any{"now": s.steps[0].Now, "what": "waits", "workload": "team-0/gang/llama", "cause": "cluster-full", "sentence": "4 pods need 8 GPUs each; 3 of 24 matching nodes have 8 free."},
	}}, s.err
}

var errNoLog = errors.New("no log here")

func (s *scripted) Cost(_ context.Context, by string, from, to time.Time) (any, []byte, error) {
	if len(s.steps) == 0 {
		return nil, nil, errNoLog
	}
	b := bill.New(bill.Options{From: from, To: to})
	for _, step := range s.steps {
		b.Add(step)
	}
	r := b.Close(to, bill.ByQueue)
	rows := []any{}
	for _, l := range append(r.Lines, r.Unused, r.Paid) {
		rows = append(rows, map[string]any{"name": l.Name, "gpuMilliseconds": l.Used / 1000, "waitingGPUMilliseconds": l.Waiting / 1000, "waitedPods": l.Waited, "meanWaitMilliseconds": l.Waits / max(1, l.Waited), "lostGPUMilliseconds": l.Lost / 1000, "preemptedPods": l.Evicted,
			"unpricedGPUMilliseconds": 0, "cost": []any{map[string]any{"currency": "USD", "micro": l.Used / 3600 * 8}}, "shareOfUnused": []any{}})
	}
	byStage := []any{}
	for _, l := range r.UnusedBy {
		byStage = append(byStage, map[string]any{"name": l.Name, "gpuMilliseconds": l.Used / 1000, "unpricedGPUMilliseconds": 0, "cost": []any{map[string]any{"currency": "USD", "micro": l.Used / 3600 * 8}}})
	}
	n := len(rows)
	return map[string]any{"idleMeasured": r.Measured, "unusedBy": byStage, "by": by, "from": from, "to": to, "seenMilliseconds": r.Seen, "unseenMilliseconds": r.Unseen, "rows": rows[:n-2], "unused": rows[n-2], "paid": rows[n-1]}, []byte("BilledCost\n"), s.err
}

func (s *scripted) Past(_ context.Context, from, to time.Time, parts int) (p bill.Past, since time.Time, err error) {
	if len(s.steps) == 0 {
		return p, since, errNoLog
	}
	since = s.steps[0].Now
	if since.After(from) {
		from = since
	}
	f := bill.Follow(from, to, parts)
	for _, step := range s.steps {
		f.Add(step)
	}
	return f.Close(to), since, s.err
}

func (s *scripted) Moments(_ context.Context, at ...time.Time) (out []bill.Moment, err error) {
	if len(s.steps) == 0 {
		return nil, errNoLog
	}
	for _, t := range at {
		b := bill.New(bill.Options{})
		for _, step := range s.steps {
			if !step.Now.After(t) {
				b.Add(step)
			}
		}
		m := b.Moment()
		m.At = t
		out = append(out, m)
	}
	return out, s.err
}
func (s *scripted) Imagine(context.Context, string, int64) (any, error) { return nil, s.err }

func workload(namespace, name, queue string, state answer.State, gpus int64) answer.Workload {
	return answer.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-4 * time.Minute))},
		Queue:      queue, State: state, GPUs: gpus, Pods: answer.Pods{Size: 2, Min: 2},
	}
}

// serve starts a server and signs in. get asks it with the pass, for paths below that of the page.
func serve(t testing.TB, a *apiServer, q Questions) (s *Server, get func(path string) *http.Response) {
	t.Helper()
	s = start(t, a, q, time.Second)
	client := &http.Client{}
	r, err := client.Get(s.Link())
	if err != nil || r.StatusCode != http.StatusOK || len(r.Cookies()) > 0 {
		t.Fatalf("the link: %v %v", r, err)
	}
	text, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || !strings.Contains(string(text), `{"path":"`+s.guard.path+`","key":"`+s.guard.key+`"}`) {
		t.Fatalf("the lobby gives no pass: %v %s", err, text)
	}
	return s, func(path string) *http.Response {
		t.Helper()
		req, _ := http.NewRequest("GET", "http://"+s.listener.Addr().String()+strings.TrimSuffix(s.guard.path, "/")+path, nil)
		req.Header.Set(keyHeader, s.guard.key)
		r, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Body.Close() })
		return r
	}
}

func start(t testing.TB, a *apiServer, q Questions, patience time.Duration) *Server {
	t.Helper()
	s, _ := startWith(t, a, q, "127.0.0.1:0", patience)
	return s
}

// startAt starts a server that the test can stop before its end.
func startAt(t testing.TB, a *apiServer, q Questions, address string) (s *Server, stop func()) {
	t.Helper()
	return startWith(t, a, q, address, time.Second)
}

func startWith(t testing.TB, a *apiServer, q Questions, address string, patience time.Duration) (s *Server, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s, err = New(Options{Config: a.config(), Namespace: "team", Listener: l, Questions: q, Cluster: "a cluster of a test", stuck: patience})
	if err != nil {
		t.Fatal(err)
	}
	s.assets = os.DirFS("assets") // as they are in the working tree
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s, stop
}

// viewer reads a stream into a table of its own, as the page does.
type viewer struct {
	t      testing.TB
	lines  *bufio.Scanner
	values map[string]map[string]json.RawMessage
	wholes int
}

func view(t testing.TB, body io.Reader) *viewer {
	v := &viewer{t: t, lines: bufio.NewScanner(body)}
	v.lines.Buffer(nil, 64<<20)
	return v
}

// until reads on until what is true. A stream that says nothing ends the test by its own deadline.
func (v *viewer) until(what string, ok func() bool) {
	v.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	event := ""
	for !(v.values != nil && ok()) {
		if !v.lines.Scan() || time.Now().After(deadline) {
			v.t.Fatalf("%s did not come: %v", what, v.lines.Err())
		}
		line := v.lines.Text()
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && event == "table" {
			v.take(data)
		}
	}
}

func (v *viewer) take(data string) {
	var m message
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		v.t.Fatal(err)
	}
	if m.Whole {
		v.values = make(map[string]map[string]json.RawMessage)
		v.wholes++
	}
	for kind, values := range m.Set {
		if v.values[kind] == nil {
			v.values[kind] = make(map[string]json.RawMessage)
		}
		for name, value := range values {
			v.values[kind][name] = value
		}
	}
	for kind, names := range m.Gone {
		for _, n := range names {
			delete(v.values[kind], n)
		}
	}
}

func (v *viewer) has(kind, name, text string) func() bool {
	return func() bool { return strings.Contains(string(v.values[kind][name]), text) }
}

// TestStrangers are all who must see nothing.
func TestStrangers(t *testing.T) {
	s := start(t, newAPIServer(t), &scripted{}, time.Second)
	address := s.listener.Addr().String()
	link, page := s.Link(), s.guard.path
	key := func(r *http.Request) { r.Header.Set(keyHeader, s.guard.key) }
	for _, c := range []struct {
		name, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"no path", "GET", "/", nil, 401},
		{"no path, for a person", "GET", "/", func(r *http.Request) { r.Header.Set("Accept", "text/html") }, 401},
		{"no path, a script", "GET", "/app.js", nil, 401},
		{"no path, data", "GET", "/api/stream", nil, 401},
		{"no path, data, with the key", "GET", "/api/stream", key, 401},
		{"a wrong path", "GET", "/" + strings.Repeat("0", 48) + "/api/about", key, 401},
		{"a path around the path", "GET", "/x/.." + page + "api/about", key, 401},
		{"the path without its slash", "GET", strings.TrimSuffix(page, "/"), key, 401},
		{"no key", "GET", page + "api/about", nil, 401},
		{"no key, the stream", "GET", page + "api/stream", nil, 401},
		{"no key, by another spelling", "GET", page + "%61pi/about", nil, 401},
		{"a wrong key", "GET", page + "api/about", func(r *http.Request) { r.Header.Set(keyHeader, strings.Repeat("0", 48)) }, 401},
		{"the key as a cookie", "GET", page + "api/about", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "berth", Value: s.guard.key}) }, 401},
		{"the key in the address", "GET", page + "api/about?" + keyHeader + "=" + s.guard.key, nil, 401},
		{"empty token", "GET", "/?token=", nil, 403},
		{"wrong token", "GET", "/?token=00", nil, 403},
		{"a name that somebody else points here", "GET", "/", func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"another port", "GET", "/", func(r *http.Request) { r.Host = "127.0.0.1:1" }, 403},
		{"the near end of a tunnel", "GET", "/", func(r *http.Request) { r.Host = "localhost:1" }, 403},
		{"a name that somebody else points here, with all else", "GET", page + "api/about", func(r *http.Request) { key(r); r.Host = "evil.example:7077" }, 403},
		{"another origin", "GET", page + "api/about", func(r *http.Request) { key(r); r.Header.Set("Origin", "http://evil.example") }, 403},
		{"the origin of another port", "GET", page + "api/about", func(r *http.Request) { key(r); r.Header.Set("Origin", "http://127.0.0.1:1") }, 403},
		{"an opaque origin", "GET", page + "api/about", func(r *http.Request) { key(r); r.Header.Set("Origin", "null") }, 403},
		{"what a browser asks before a script's header goes elsewhere", "OPTIONS", page + "api/about", func(r *http.Request) {
			r.Header.Set("Origin", "http://evil.example")
			r.Header.Set("Access-Control-Request-Headers", "berth-key")
		}, 403},
		{"a script of another site", "GET", page + "api/stream", func(r *http.Request) { key(r); r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"another port of this machine", "GET", page + "app.js", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		{"a link of another site to data", "GET", page + "api/capacity?format=csv", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "document")
		}, 403},
		{"what a browser fetches before anybody asked for it", "GET", strings.TrimPrefix(link, "http://"+address), func(r *http.Request) { r.Header.Set("Sec-Purpose", "prefetch;prerender") }, 503},
		{"a frame of another site", "GET", page, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "iframe")
		}, 403},
		{"a write", "POST", "/?token=x", nil, 401},
		{"a write with the token", "POST", strings.TrimPrefix(link, "http://"+address), nil, 401},
		{"a write by who may read", "POST", page + "api/about", key, 405},
	} {
		req, _ := http.NewRequest(c.method, "http://"+address+c.path, nil)
		if c.change != nil {
			c.change(req)
		}
		r, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != c.want || len(r.Cookies()) > 0 {
			t.Errorf("%s: %d, want %d; cookies %v", c.name, r.StatusCode, c.want, r.Cookies())
		}
		if strings.Contains(string(text), s.guard.key) || strings.Contains(string(text), strings.Trim(page, "/")) {
			t.Errorf("%s is told the pass: %s", c.name, text)
		}
		if r.Header.Get("Content-Security-Policy") == "" || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: headers %v", c.name, r.Header)
		}
	}
	req, _ := http.NewRequest("GET", "http://"+address+"/", nil) // as a browser at the near end of a tunnel does
	req.Host = "localhost:1"
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Dest", "document")
	if r, err := http.DefaultTransport.RoundTrip(req); err != nil {
		t.Fatal(err)
	} else if text, _ := io.ReadAll(r.Body); r.StatusCode != 403 || !strings.Contains(string(text), "forward port "+address[strings.LastIndex(address, ":")+1:]+" ") {
		t.Errorf("a tunnel from another port: %d %s", r.StatusCode, text)
	}
	for i, want := range []int{200, 403} {
		r, err := http.Get(link)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("use %d of the link: %d", i+1, r.StatusCode)
		}
	}
}

// TestWaits is a server that asks the API server for nothing before somebody opens its link.
func TestWaits(t *testing.T) {
	a := newAPIServer(t)
	a.fill(1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Config: a.config(), Listener: l, Questions: &scripted{}, Waits: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for _, path := range []string{"/", "/api/stream", "/?token=no"} {
		r, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	if n := a.asked.Load(); n != 0 {
		t.Errorf("%d requests before anybody came", n)
	}
	if r, err := http.Get(s.Link()); err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	for end := time.Now().Add(20 * time.Second); a.asked.Load() == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if a.asked.Load() == 0 {
		t.Error("nothing is read for who came")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestLive follows a pod from its arrival to a viewer, through a watch that is cut and an API server that is away for a while.
func TestLive(t *testing.T) {
	a := newAPIServer(t)
	a.put("nodes", gpuNode("n1", "b", "r", 8))
	q := &scripted{workloads: answer.WorkloadList{Items: []answer.Workload{workload("team", "gang.first", "research", answer.Waiting, 8)}}}
	q.workloads.Items[0].Cause, q.workloads.Items[0].Sentence = why.ClusterFull, "needs more"
	_, get := serve(t, a, q)
	v := view(t, get("/api/stream").Body)
	v.until("the node", v.has("node", "n1", `"n":8,"stage":"schedulable"`))
	v.until("the line", v.has("workload", "team/gang.first", `"title":"gang/first"`))
	a.put("pods", gpuPod("team", "p", "n1", 3))
	v.until("the pod", v.has("node", "n1", `{"n":3,"stage":"allocated","cause":"not-measured","pods":["team/p"],"work":"team/pod.p"}`))
	a.cut()
	a.put("pods", gpuPod("team", "q", "n1", 2))
	v.until("what came while the watch was cut", v.has("node", "n1", `"pods":["team/q"]`))
	if v.wholes != 1 {
		t.Errorf("everything was sent %d times", v.wholes)
	}
}

// TestTenant may read one namespace and no node.
func TestTenant(t *testing.T) {
	a := newAPIServer(t)
	for _, k := range watchedKinds {
		a.forbidden[k.resource] = true
	}
	a.put("pods", gpuPod("team", "mine", "n1", 1))
	a.put("pods", gpuPod("other", "theirs", "n1", 1))
	_, get := serve(t, a, &scripted{err: errors.New("you may not look")})
	v := view(t, get("/api/stream").Body)
	v.until("nodes", v.has("source", "nodes", `"forbidden":true`))
	v.until("pods", v.has("source", "pods", `"forbidden":true,"only":"team"`))
	v.until("the line", v.has("line", "scheduler", "you may not look"))
	if len(v.values["node"]) != 0 || strings.Contains(string(encode(v.values)), "theirs") {
		t.Errorf("%s", encode(v.values))
	}
}

// TestSlowViewer is sent everything again, and what it missed is not kept for it.
func TestSlowViewer(t *testing.T) {
	tb := newTable()
	big := strings.Repeat("x", 1<<20)
	for i := range 20 {
		tb.put(map[string]map[string]json.RawMessage{"node": {"n": encode(big + string(rune('a'+i)))}})
	}
	if tb.bytes > mostKept || len(tb.kept) > 4 {
		t.Errorf("%d bytes in %d changes are kept", tb.bytes, len(tb.kept))
	}
	texts, to, err := tb.since(t.Context(), 3)
	if err != nil || to != 20 || len(texts) != 1 || !strings.Contains(string(texts[0][:40]), `"whole":true`) {
		t.Errorf("version 3 hears %d texts, to %d: %v", len(texts), to, err)
	}
	texts, to, err = tb.since(t.Context(), 19)
	if err != nil || to != 20 || len(texts) != 1 || strings.Contains(string(texts[0][:40]), `"whole"`) {
		t.Errorf("version 19 hears %d texts, to %d: %v", len(texts), to, err)
	}
	for _, version := range []int64{-1, 21, 1 << 62, -1 << 63} {
		if texts, to, err = tb.since(t.Context(), version); err != nil || to != 20 || len(texts) != 1 || !strings.Contains(string(texts[0][:40]), `"whole":true`) {
			t.Errorf("version %d, which there never was, hears %d texts, to %d: %v", version, len(texts), to, err)
		}
	}
	if tb.put(map[string]map[string]json.RawMessage{"node": tb.values["node"]}) {
		t.Error("the same again is a change")
	}
}

// TestWholesAreShared has everybody who comes while little changes sent the same bytes: each may keep them for as long as a request lasts.
func TestWholesAreShared(t *testing.T) {
	tb := newTable()
	nodes := make(map[string]json.RawMessage)
	for i := range 100 {
		nodes[fmt.Sprint("n", i)] = encode(strings.Repeat("x", 1000))
	}
	tb.put(map[string]map[string]json.RawMessage{"node": nodes})
	wholes := make(map[*byte]bool)
	for i := range 200 {
		nodes = maps.Clone(nodes)
		nodes[fmt.Sprint("n", i%100)] = encode(strings.Repeat("y", 1000) + fmt.Sprint(i))
		if i%3 == 0 {
			delete(nodes, fmt.Sprint("n", (i+50)%100))
		}
		tb.put(map[string]map[string]json.RawMessage{"node": nodes})
		texts, to, err := tb.since(t.Context(), 0)
		if err != nil || to != tb.version {
			t.Fatalf("to %d of %d: %v", to, tb.version, err)
		}
		wholes[&texts[0][0]] = true
		if i%10 != 9 {
			continue
		}
		v := &viewer{t: t}
		for _, text := range texts {
			v.take(string(text))
		}
		if want, got := encode(tb.values), encode(v.values); !bytes.Equal(want, got) {
			t.Fatalf("who comes at version %d has another table", to)
		}
	}
	if len(wholes) > 10 {
		t.Errorf("%d different texts of the whole table, of 100 KB each, for changes of 200 KB", len(wholes))
	}
}

// TestStuckViewer does not read at all: it is dropped.
func TestStuckViewer(t *testing.T) {
	a := newAPIServer(t)
	a.fill(600)
	s := start(t, a, &scripted{}, 300*time.Millisecond)
	c, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(1 << 10)
	io.WriteString(c, "GET "+s.guard.path+"api/stream HTTP/1.1\r\nHost: "+s.listener.Addr().String()+"\r\n"+keyHeader+": "+s.guard.key+"\r\n\r\n")
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	wait("the viewer did not come", func() bool { return s.viewers.Load() == 1 })
	i := 0
	wait("the viewer was not dropped", func() bool {
		i++
		s.table.put(map[string]map[string]json.RawMessage{"x": {"y": encode(strings.Repeat(string(rune('a'+i%26)), 1<<20))}})
		return s.viewers.Load() == 0
	})
}

// TestQuestions refuses what cannot be answered, in a sentence.
func TestQuestions(t *testing.T) {
	_, get := serve(t, newAPIServer(t), &scripted{why: map[string]string{"summary": "it waits"}, fit: "fits", capacity: 1})
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"/api/why?name=a&kind=job", 200, `{"summary":"it waits"}`},
		{"/api/why?name=a&kind=teapot", 400, `{"error":"\"teapot\" is no kind of work: ask about a pod, job, deployment, statefulset, podgroup, jobset, pytorchjob, rayjob or the like"}`},
		{"/api/why?name=" + strings.Repeat("a", 300), 400, `{"error":"that is no name"}`},
		{"/api/fit?pods=4&gpus=8", 200, `"fits"`},
		{"/api/fit?pods=0&gpus=8", 400, `{"error":"pods: give a number from 1 to 512"}`},
		{"/api/fit?pods=4&gpus=1e9", 400, `{"error":"gpus: give a number from 1 to 64"}`},
		{"/api/capacity?format=csv", 200, "pool,paid\na,8\n"},
		{"/api/happened?from=0&to=5", 502, `{"error":"no log here"}`},
		{"/api/happened?from=9&to=5", 400, `{"error":"to: give a number from 9 to 4503599627370496"}`},
		{"/api/whatif?quota=1", 400, `{"error":"which queue?"}`},
		{"/nothing", 404, "404 page not found\n"},
	} {
		r := get(c.path)
		body, _ := io.ReadAll(r.Body)
		if diff := cmp.Diff(c.want, string(body)); diff != "" || r.StatusCode != c.code {
			t.Errorf("%s: %d %s", c.path, r.StatusCode, diff)
		}
	}
	page, _ := io.ReadAll(get("/").Body)
	if strings.Contains(string(page), "://") {
		t.Error("the page names another place")
	}
}

// TestPast is bounded however long it lasts, and tells what happened since the page looks, not before.
func TestPast(t *testing.T) {
	p := newPast()
	at := time.Unix(1_000_000, 0)
	for i := range 5000 {
		p.sum(total{Reached: map[string]int64{"schedulable": 10, "allocated": 7}})
		p.tick(at.Add(time.Duration(i) * sampleEvery))
	}
	h := p.history()
	if len(h.Samples) >= mostSamples || h.Every <= sampleEvery.Milliseconds() || h.Samples[3].Allocated != 7 {
		t.Errorf("%d samples every %d ms", len(h.Samples), h.Every)
	}
	wait, run := workload("a", "gang.x", "q", answer.Waiting, 4), workload("a", "gang.x", "q", answer.Running, 4)
	wait.Sentence, run.CreationTimestamp = "no room", metav1.NewTime(at.Add(-time.Minute))
	gone := run
	gone.Evicting = &answer.Evicting{Cause: "reclaim"}
	old := workload("a", "gang.old", "q", answer.Running, 1)
	for _, items := range [][]answer.Workload{{old}, {old, wait}, {old, run}, {gone}} {
		p.line(at, answer.WorkloadList{Items: items})
	}
	var told []string
	h = p.history()
	for _, m := range h.Moments {
		told = append(told, m.What+" "+m.Title+" "+m.Text)
	}
	want := []string{"ends gang/old ", "gives way gang/x reclaim", "starts gang/x ", "waits gang/x no room"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	if h.Waits.N != 1 || h.Waits.P50 != 60 {
		t.Errorf("%+v", h.Waits)
	}
}

// TestPartsAreTheWhole counts a fleet node by node, and gets what counting all of it gives.
func TestPartsAreTheWhole(t *testing.T) {
	a := newAPIServer(t)
	a.fill(200)
	r, err := newReader(a.config(), "team", newClock(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	go r.run(t.Context())
	var f *facts.Facts
	for ready := false; !ready || len(f.Nodes) < 200 || len(f.Pods) < 100; time.Sleep(10 * time.Millisecond) {
		f, _, ready = r.read()
	}
	l := fleet{nodes: map[string]*node{}, rows: map[string]json.RawMessage{}, whole: time.Now()}
	for _, n := range f.Nodes {
		l.count(f, map[string]bool{n.Name: true, "gone": true}, false)
	}
	if diff := cmp.Diff(rows(fleetOf(f)), l.rows); diff != "" {
		t.Error(diff)
	}
}

// TestTableThenStream is how a page begins: the whole at once, and then what changed since. What was read of another table counts for
// nothing.
func TestTableThenStream(t *testing.T) {
	a := newAPIServer(t)
	a.fill(8)
	_, get := serve(t, a, &scripted{})
	var m message
	for len(m.Set[kindNode]) < 8 {
		r := get("/api/table?wait=0")
		if r.StatusCode == http.StatusNoContent {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		m = message{}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || !m.Whole || m.Of == "" {
			t.Fatalf("%+v %v", m, err)
		}
	}
	since := func(of string) *viewer {
		return view(t, get("/api/stream?since="+strconv.FormatInt(m.To, 10)+"&of="+of).Body)
	}
	v := since(m.Of)
	if began := time.Now(); !v.lines.Scan() || v.lines.Text() != "event: now" || time.Since(began) > beat/2 {
		t.Errorf("%q after %v: the page would not know that the server lives", v.lines.Text(), time.Since(began))
	}
	v.values = m.Set
	a.put("pods", gpuPod("team", "late", "gpu-0004", 8))
	v.until("the pod", v.has(kindNode, "gpu-0004", "team/late"))
	if v.wholes != 0 {
		t.Error("everything was sent again")
	}
	v = since("another")
	v.until("everything", func() bool { return len(v.values[kindNode]) == 8 })
	if v.wholes != 1 {
		t.Errorf("%d times everything", v.wholes)
	}
}

// TestHangingCluster is one that answers nobody: who asks what it is not needed for is answered, however many wait for it.
func TestHangingCluster(t *testing.T) {
	a := newAPIServer(t)
	q := research()
	q.steps, q.hangs = told(8, time.Now().Add(-time.Hour), time.Now()), true
	s, get := serve(t, a, q)
	for range 2 * mostAsked {
		go func() {
			if r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.listener.Addr().String()+s.guard.path+"api/capacity", nil); err == nil {
				r.Header.Set(keyHeader, s.guard.key)
				if answer, err := http.DefaultClient.Do(r); err == nil {
					answer.Body.Close()
				}
			}
		}()
	}
	for running := 0; running < mostAsked; time.Sleep(time.Millisecond) {
		s.desk.asked.mu.Lock()
		running = s.desk.asked.n
		s.desk.asked.mu.Unlock()
	}
	began := time.Now()
	for _, path := range []string{"/api/about", "/api/history", fmt.Sprintf("/api/past?from=%d&to=%d&parts=4", began.Add(-time.Hour).UnixMilli(), began.UnixMilli())} {
		if r := get(path); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the page waited %s for a cluster that it did not ask", took)
	}
}
