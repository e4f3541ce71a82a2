package web

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/diagnose/facts"
)

//go:embed assets
var embedded embed.FS

// Options say what is served. Config, Listener and Questions are required.
type Options struct {
	Config    *rest.Config // whose rights everything is read with
	Namespace string       // read alone where the whole cluster may not be
	Listener  net.Listener // on loopback
	Questions Questions
	Cluster   string // which one it is, for people
	Version   string
	Log       *slog.Logger // nil: nobody reads it
	// Waits says that nothing is read before somebody opens the link.
	Waits bool

	stuck time.Duration // 0: the constant; shorter in tests
}

// Server serves the page.
type Server struct {
	desk
	listener net.Listener
	fleet    fleet
	guard    *guard
	table    *table
	reader   *reader
	past     *past
	clock    *clock
	log      *slog.Logger
	stuck    time.Duration
	drawn    func(sum total, told map[string]source) // hears of every picture; nil: the table has it

	viewers atomic.Int64
	places  *places
	waits   bool
	assets  fs.FS
	dirty   chan struct{} // holds at most one
	// cameFleet and cameLine, too: a viewer came, who is not kept waiting for what nobody looked at before.
	cameFleet, cameLine chan struct{}
}

// about is what the page says of itself.
type about struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Version   string `json:"version"`
	Started   int64  `json:"started"`          // milliseconds; with another one the server was started anew
	Shared    bool   `json:"shared,omitempty"` // by people with rights of their own
	Grant     string `json:"grant,omitempty"`  // a command that gives the page what it may not read itself
}

// New makes a server that does nothing yet.
func New(o Options) (*Server, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	s.listener, s.guard = o.Listener, newGuard(o.Listener.Addr().String())
	return s, nil
}

// newServer makes one that nobody can reach.
func newServer(o Options) (*Server, error) {
	s := &Server{
		table: newTable(), past: newPast(), clock: newClock(), log: o.Log, stuck: o.stuck, waits: o.Waits, places: newPlaces(mostViewers, mostViewers),
		dirty: make(chan struct{}, 1), cameFleet: make(chan struct{}, 1), cameLine: make(chan struct{}, 1),
	}
	s.desk = desk{
		questions: o.Questions, asked: newTurns(mostAsked, mostViewers), looked: newTurns(mostAsked, mostViewers), history: s.past.history,
		about: about{Cluster: o.Cluster, Namespace: o.Namespace, Version: o.Version, Started: time.Now().UnixMilli()},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.stuck == 0 {
		s.stuck = stuck
	}
	var err error
	if s.assets, err = fs.Sub(embedded, "assets"); err != nil {
		return nil, err
	}
	s.reader, err = newReader(o.Config, o.Namespace, s.clock, func() { signal(s.dirty) })
	return s, err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// came has everything looked at again for a viewer that came.
func (s *Server) came() {
	signal(s.cameFleet)
	signal(s.cameLine)
}

// Link is the address to open. It works once.
func (s *Server) Link() string {
	return "http://" + s.listener.Addr().String() + "/?token=" + s.guard.token
}

// requestWithin is how long anybody may take to send a request. It ends for who has the key: an answer may take longer, and a stream lasts.
const requestWithin = 10 * time.Second

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.read(ctx)
	serving, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	server := &http.Server{
		Handler: s.handler(), ReadTimeout: requestWithin, WriteTimeout: answerWithin + 30*time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return serving }, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(ended)
		end(errBye)
		soon, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = server.Shutdown(soon)
		server.Close()
	})
	err := server.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		<-ended // viewers are told
		return nil
	}
	return err
}

// read follows the cluster until the context ends, once somebody came.
func (s *Server) read(ctx context.Context) {
	if s.waits {
		select {
		case <-ctx.Done():
			return
		case <-s.guard.entered:
		}
	}
	go s.reader.run(ctx)
	go s.drawFleet(ctx)
	s.askLine(ctx)
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(s.assets))
	always := func(context.Context) (*table, error) { s.guard.touch(); return s.table, nil }
	mux.HandleFunc("/api/stream", func(w http.ResponseWriter, r *http.Request) { s.stream(w, r, "", "", always) })
	mux.HandleFunc("/api/table", func(w http.ResponseWriter, r *http.Request) { s.whole(w, r, s.table) })
	s.routes(mux)
	return s.guard.in(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.clock.stamp(w)
		mux.ServeHTTP(w, r)
	}))
}

const (
	// drawEvery is how often the fleet is drawn at most, and drawShare the part of one core that drawing may take: a fleet that
	// takes longer to count is counted less often.
	drawEvery = 200 * time.Millisecond
	drawShare = 8
	// recount is how often everything is counted whatever changed: what depends on time alone changes too.
	recount = 30 * time.Second
	// drawIdle is how often it is drawn for nobody but the record of its use.
	drawIdle = 5 * time.Second
)

// drawFleet counts the fleet again whenever something changed.
func (s *Server) drawFleet(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.past.tick(s.clock.now())
			if !s.fleet.late && time.Since(s.fleet.whole) < recount {
				continue
			}
		case <-s.dirty:
		}
		began := time.Now()
		if f, sources, ready := s.reader.read(); ready {
			s.draw(f, sources)
		}
		pause := max(drawEvery, min(drawShare*time.Since(began), drawIdle))
		if s.viewers.Load() == 0 {
			pause = max(pause, drawIdle)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		case <-s.cameFleet:
		}
	}
}

// fleet is what was counted last. One goroutine has it.
type fleet struct {
	nodes map[string]*node
	rows  map[string]json.RawMessage
	whole time.Time // when everything was last counted
	late  bool      // everything is to be counted, once it may
	took  time.Duration
}

// count brings the fleet up to date: of the nodes of which something changed or, not more often than its share of a core allows, of all.
func (l *fleet) count(f *facts.Facts, touched map[string]bool, all bool) {
	l.late = l.late || all
	if l.nodes == nil || l.late && time.Since(l.whole) >= drawShare*l.took || time.Since(l.whole) > recount {
		began := time.Now()
		l.nodes = fleetOf(f)
		l.rows = rows(l.nodes)
		l.whole, l.late, l.took = began, false, time.Since(began)
		return
	}
	if len(touched) == 0 {
		return
	}
	part := fleetOf(around(f, touched))
	l.rows = maps.Clone(l.rows) // the table has the other
	for name := range touched {
		delete(l.nodes, name)
		delete(l.rows, name)
		if n := part[name]; n != nil {
			l.nodes[name], l.rows[name] = n, encode(n)
		}
	}
}

func (s *Server) draw(f *facts.Facts, sources map[string]source) {
	touched, all := s.reader.changes()
	s.fleet.count(f, touched, all)
	nodes, sum := s.fleet.nodes, sumOf(s.fleet.nodes)
	s.past.sum(sum)
	told := make(map[string]source)
	for _, name := range resources(sources) {
		told[name] = sources[name]
	}
	if s.drawn != nil {
		s.drawn(sum, told)
		return
	}
	s.table.put(map[string]map[string]json.RawMessage{
		kindNode: s.fleet.rows, kindSource: rows(told), kindTotal: rows(map[string]any{"fleet": sum, "models": models(nodes)}),
	})
}

// lineEvery is how often the scheduler is asked for its line while somebody looks, and lineIdle while nobody does.
const (
	lineEvery = time.Second
	lineIdle  = 10 * time.Second
)

// askLine asks the scheduler again and again. One that does not answer is asked less often, and holds up nobody else.
func (s *Server) askLine(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		queues, workloads, err := s.questions.Line(ctx)
		status := source{Synced: err == nil}
		if err != nil {
			status.Error = err.Error()
			kinds := map[string]map[string]json.RawMessage{kindLine: rows(map[string]source{"scheduler": status})}
			if len(queues.Items) > 0 {
				kinds[kindQueue], _ = lineRows(queues, workloads)
			}
			s.table.put(kinds)
		} else {
			s.past.line(s.clock.now(), workloads)
			q, w := lineRows(queues, workloads)
			s.table.put(map[string]map[string]json.RawMessage{kindQueue: q, kindWorkload: w, kindLine: rows(map[string]source{"scheduler": status})})
		}
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
