package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/kube/answer"
)

// SharedOptions say what a shared page shows. Config and Questions are required.
type SharedOptions struct {
	Config *rest.Config // whose rights the fleet is read with
	// Questions answer one viewer: nothing in an answer may be more than they may read.
	Questions func(*answer.Viewer, answer.Rights) Questions
	Cluster   string
	Version   string
	Grant     string       // a command that gives Config's identity the rights that it lacks; "": nobody knows one
	Log       *slog.Logger // nil: nobody reads it

	idle, life, stuck time.Duration // 0: the constants; shorter in tests
}

// Shared is a page for everybody whom the API server lets look (answer.Page). One reader serves all of them, with the rights of this
// process; each viewer is sent what their own rights let them be told. Viewers with equal rights share a table. Nothing is read while
// nobody looks.
type Shared struct {
	o      SharedOptions
	assets fs.FS

	mu      sync.Mutex
	live    *sharing // nil: nobody looks
	looking int      // requests that are being served
	closed  bool
}

const (
	// sharedIdle is how long the cluster is followed after the last viewer went.
	sharedIdle = 2 * time.Minute
	// reviewEvery is how often a viewer's rights are looked at again. The API server's word is remembered for a while besides (package answer).
	reviewEvery = 20 * time.Second
	// streamLife is after how long a stream is begun anew, by whoever the viewer is then: a token that was revoked, a person who left a
	// group. A stream has what the API server said of them when it began. API servers end watches for it too.
	streamLife = 15 * time.Minute
)

// NewShared makes a page that nobody looks at yet.
func NewShared(o SharedOptions) (*Shared, error) {
	if o.idle == 0 {
		o.idle = sharedIdle
	}
	if o.life == 0 {
		o.life = streamLife
	}
	assets, err := fs.Sub(embedded, "assets")
	return &Shared{o: o, assets: assets}, err
}

// Close ends what is read. Viewers are told nothing more.
func (p *Shared) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.live != nil {
		p.live.cancel()
		p.live = nil
	}
}

// enter has the cluster read for somebody, until leave is called.
func (p *Shared) enter(v *answer.Viewer) (live *sharing, leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errors.New("this scheduler is stopping")
	}
	if p.live == nil {
		if p.live, err = startSharing(&p.o, v); err != nil {
			return nil, nil, err
		}
	}
	p.looking++
	return p.live, p.leave, nil
}

func (p *Shared) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looking--; p.looking == 0 {
		time.AfterFunc(p.o.idle, func() { p.rest() })
	}
}

// rest stops reading if nobody looks. Somebody who came and went in between is given less time than others.
func (p *Shared) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looking == 0 && p.live != nil {
		p.live.cancel()
		p.live = nil
	}
}

// ServeViewer implements answer.Page.
func (p *Shared) ServeViewer(w http.ResponseWriter, r *http.Request, v *answer.Viewer) {
	for name, value := range security {
		w.Header().Set(name, value)
	}
	switch {
	case foreign(r):
		http.Error(w, "This page is for no other site.", http.StatusForbidden)
	case !reads(r):
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The page only reads.", http.StatusMethodNotAllowed)
	case r.URL.Path == "/" || r.URL.Path == "/index.html":
		p.index(w)
	case len(r.URL.Path) < 5 || r.URL.Path[:5] != "/api/":
		http.FileServerFS(p.assets).ServeHTTP(w, r)
	default:
		live, leave, err := p.enter(v)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer leave()
		live.serve(w, r, v)
	}
}

// foreign says that another site's page makes the request. Browsers say so, in a header that no page can set. Older ones say the origin
// alone, where it is another one. The name that the viewer calls this server by is not known here: the API server is in between, and
// other sites can read nothing that it does not allow them to.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return false
	case "", "none":
		return r.Header.Get("Origin") != ""
	}
	return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// index is the page itself. It shares its origin with all that the API server passes on, pods among it, so scripts are let in by a
// number that is another one each time, and not by where they are from. Scripts that these import have it from them.
func (p *Shared) index(w http.ResponseWriter) {
	text, err := fs.ReadFile(p.assets, "index.html")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	nonce := random()
	for _, tag := range []string{"<script ", `<link rel="modulepreload" `} {
		text = bytes.ReplaceAll(text, []byte(tag), []byte(tag+`nonce="`+nonce+`" `))
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+nonce+"'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(text)
}

// sharing is a page while somebody looks.
type sharing struct {
	*Server
	o      *SharedOptions
	cancel context.CancelFunc
	ctx    context.Context
	line   func(context.Context) (answer.Everything, error)

	mu     sync.Mutex
	scopes *scopes
	latest *answer.Everything // nil: not asked for yet
	failed error              // what the scheduler said last instead
}

func startSharing(o *SharedOptions, v *answer.Viewer) (*sharing, error) {
	s, err := newServer(Options{Config: o.Config, Cluster: o.Cluster, Version: o.Version, Log: o.Log, stuck: o.stuck})
	if err != nil {
		return nil, err
	}
	out := &sharing{Server: s, o: o, line: v.Everything, scopes: newScopes(mostScopes)}
	out.about.Shared, out.about.Grant = true, o.Grant
	out.places = newPlaces(mostViewers, mostOfOne)
	out.asked, out.looked = newTurns(mostAsked, mostOfMine), newTurns(mostAsked, mostOfMine)
	out.ctx, out.cancel = context.WithCancel(context.Background())
	s.drawn = out.spread
	go s.reader.run(out.ctx)
	go s.drawFleet(out.ctx)
	go out.askLine(out.ctx)
	return out, nil
}

// serve answers one request of a viewer.
func (s *sharing) serve(w http.ResponseWriter, r *http.Request, v *answer.Viewer) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	r = r.WithContext(ctx)
	s.clock.stamp(w)
	if r.URL.Path == "/api/stream" {
		lasting, end := context.WithTimeoutCause(ctx, s.o.life, errAgain)
		defer end()
		s.stream(w, r.WithContext(lasting), v.Namespace, v.Person(), s.tableOf(v))
		return
	}
	rights, err := v.Rights(ctx)
	if err != nil {
		s.fail(w, err)
		return
	}
	if r.URL.Path == "/api/table" {
		t, err := s.tableFor(rights, v.Person())
		if err != nil {
			s.fail(w, err)
			return
		}
		s.whole(w, r, t)
		return
	}
	d := &desk{questions: s.o.Questions(v, rights), namespace: v.Namespace, person: v.Person(), asked: s.asked, looked: s.looked, about: s.about, history: func() history { return s.past.history().cut(rights) }}
	d.about.Namespace = v.Namespace
	d.may = func(ctx context.Context, w wish) (bool, error) {
		return v.May(ctx, w.group, w.resource, w.below, w.namespace)
	}
	mux := http.NewServeMux()
	d.routes(mux)
	mux.ServeHTTP(w, r)
}

// tableOf is the table of a viewer, whose rights are looked at again from time to time.
func (s *sharing) tableOf(v *answer.Viewer) func(context.Context) (*table, error) {
	var rights answer.Rights
	var until time.Time
	return func(ctx context.Context) (*table, error) {
		if now := time.Now(); now.After(until) {
			var err error
			if rights, err = v.Rights(ctx); err != nil {
				return nil, err
			}
			until = now.Add(reviewEvery)
		}
		return s.tableFor(rights, v.Person())
	}
}

// tableFor is the table of viewers with these rights.
func (s *sharing) tableFor(r answer.Rights, person string) (*table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, opened, err := s.scopes.take(r, person, time.Now())
	if err != nil {
		return nil, err
	}
	if opened {
		signal(s.dirty) // it is drawn at once
		signal(s.cameFleet)
		s.tell(c)
	}
	return c.table, nil
}

// spread puts the picture into every table that somebody reads.
func (s *sharing) spread(sum total, sources map[string]source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopes.rest(time.Now())
	for r, c := range s.scopes.held {
		totals := map[string]any{"fleet": sum}
		if r.Nodes {
			totals["models"] = models(s.fleet.nodes)
		}
		c.table.put(map[string]map[string]json.RawMessage{kindNode: c.cut(s.fleet.nodes, s.fleet.rows), kindSource: rows(c.sources(sources)), kindTotal: rows(totals)})
	}
}

// cut are the rows of nodes for the scope. What did not change is not made again.
func (c *scope) cut(nodes map[string]*node, whole map[string]json.RawMessage) map[string]json.RawMessage {
	switch {
	case !c.rights.Nodes:
		return nil
	case c.rights.Pods:
		return whole
	}
	was, out := c.nodes, make(map[string]json.RawMessage, len(nodes))
	for name, n := range nodes {
		if was[name] == n {
			out[name] = c.rows[name]
		} else {
			out[name] = encode(n.cut(c.rights))
		}
	}
	c.nodes, c.rows = maps.Clone(nodes), out
	return out
}

// cut is the node without what the viewer may not read: who holds GPUs, where they may not list pods. What is wrong with it is said by
// its cause alone, because the sentence can name a pod.
func (n *node) cut(r answer.Rights) *node {
	out := *n
	out.Said, out.Fix, out.GPUs = "", "", make([]run, 0, len(n.GPUs))
	for _, g := range n.GPUs {
		var pods []string
		for _, p := range g.Pods {
			if r.Sees(spaceOf(p)) {
				pods = append(pods, p)
			} else {
				g.Hidden++
			}
		}
		g.Pods = pods
		if g.Work != "" && !r.Sees(spaceOf(g.Work)) {
			g.Work = ""
		}
		if last := len(out.GPUs) - 1; last >= 0 && out.GPUs[last].like(&g) {
			out.GPUs[last].N += g.N
			continue
		}
		out.GPUs = append(out.GPUs, g)
	}
	return &out
}

// sources say what the viewer may not read, and what this process may not.
func (c *scope) sources(all map[string]source) map[string]source {
	out := make(map[string]source, len(all))
	for name, s := range all {
		s.Ours, s.Only = s.Forbidden, ""
		switch {
		case name == nodesKind && !c.rights.Nodes:
			s = source{Synced: true, Forbidden: true}
		case name == podsKind && !c.rights.Pods && c.rights.PodsHere:
			s = source{Synced: true, Forbidden: true, Only: c.rights.Namespace}
		case name == podsKind && !c.rights.Pods:
			s = source{Synced: true, Forbidden: true}
		}
		out[name] = s
	}
	return out
}

// askLine asks the scheduler for all tables together.
func (s *sharing) askLine(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		within, cancel := context.WithTimeout(ctx, answerWithin)
		all, err := s.line(within)
		cancel()
		s.mu.Lock()
		if s.failed = err; err == nil {
			s.latest = &all
			_, workloads := all.For(answer.Rights{Workloads: true, Nodes: true, Pods: true})
			s.past.line(s.clock.now(), workloads)
		}
		for _, c := range s.scopes.held {
			s.tell(c)
		}
		s.mu.Unlock()
		pause := max(lineEvery, drawShare*time.Since(began))
		if s.viewers.Load() == 0 || err != nil {
			pause = max(pause, lineIdle)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		case <-s.cameLine:
		}
	}
}

// tell puts the line into a table. The caller has the lock.
func (s *sharing) tell(c *scope) {
	status := source{Synced: s.failed == nil}
	switch {
	case s.failed != nil:
		status.Error = s.failed.Error()
	case s.latest == nil:
		return
	case !c.rights.Workloads:
		status.Error = "you have no right to list workloads" + in(c.rights.Namespace)
	case !c.rights.Queues:
		status.Error = "you have no right to list queues" + in(c.rights.Namespace)
	}
	kinds := map[string]map[string]json.RawMessage{kindLine: rows(map[string]source{"scheduler": status})}
	if s.failed == nil {
		kinds[kindQueue], kinds[kindWorkload] = lineRows(s.latest.For(c.rights))
	}
	c.table.put(kinds)
}

func in(namespace string) string {
	if namespace == "" {
		return " of all namespaces"
	}
	return " in namespace " + namespace
}
