package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/answer"
)

// Questions are what the page asks the command line. The values that come back are those that the commands print as JSON.
type Questions interface {
	// Line is the queues in the order of the tree, and workloads in the order of the line: `berth queue`, `berth jobs -A`. With an error
	// there may be queues, as they were written: `berth queue` has these where no scheduler answers.
	Line(context.Context) (answer.QueueList, answer.WorkloadList, error)
	// Why is `berth why KIND/NAME`; without a name, `berth why -A`.
	Why(context.Context, facts.Ref) (any, error)
	// Fit is `berth check` of a Job of the shape.
	Fit(context.Context, Shape) (any, error)
	// Capacity is `berth capacity --by BY`: as a value, or as CSV.
	Capacity(ctx context.Context, by string) (value any, csv []byte, err error)
	// Cost is `berth cost --by BY --since FROM --until TO`: as a value, or as CSV.
	Cost(ctx context.Context, by string, from, to time.Time) (value any, csv []byte, err error)
	// Past is what the decision log says of a span, in parts, and since when the log is kept.
	Past(ctx context.Context, from, to time.Time, parts int) (past bill.Past, since time.Time, err error)
	// Moments are the cluster at times that are in order, from the decision log.
	Moments(ctx context.Context, at ...time.Time) ([]bill.Moment, error)
	// Happened is `berth replay --from T --to T`, the latest first.
	Happened(ctx context.Context, from, to time.Time) (any, error)
	// Imagine is `berth whatif --quota QUEUE=N`.
	Imagine(ctx context.Context, queue string, quota int64) (any, error)
}

// Shape is a gang that somebody would like to start.
type Shape struct {
	Pods, GPUs int64  // pods, and GPUs of each
	Model      string // as the label nvidia.com/gpu.product has it; "": any
	Queue      string // "": none
	Level      string // that all pods share: rack, block; "": none
}

// Bounds on what may be asked, and for how long an answer is worked at.
const (
	mostPods     = 512
	mostGPUs     = 64
	mostName     = 253
	answerWithin = 60 * time.Second
	// mostOfMine is how many questions of one person wait for an answer on a page that people share.
	mostOfMine = 32
	// mostAsked is how many questions are worked at side by side that read the whole cluster, and as many that read the decision log:
	// a cluster that does not answer keeps nobody from the log.
	mostAsked = 2
)

// desk answers questions, with one person's rights.
type desk struct {
	questions Questions
	namespace string // of the page
	person    string // who asks; "": the one who has the link
	asked     *turns // of questions about the cluster
	looked    *turns // of those about the decision log
	history   func() history
	about     about
	may       func(context.Context, wish) (bool, error) // whether the person may read it; nil: a page for one person, who needs not ask
}

// wish is a kind that somebody would like to read.
type wish struct {
	group, resource, below string // nodes; clusterqueues of kueue.x-k8s.io; log below pods
	namespace              string // "": all
}

// routes are the paths of all questions.
func (s *desk) routes(mux *http.ServeMux) {
	mux.HandleFunc("/api/about", s.ask(nil, func(context.Context, url.Values) (any, error) { return s.about, nil }))
	mux.HandleFunc("/api/history", s.ask(nil, func(context.Context, url.Values) (any, error) { return s.history(), nil }))
	mux.HandleFunc("/api/why", s.ask(s.asked, s.why))
	mux.HandleFunc("/api/fit", s.ask(s.asked, s.fit))
	mux.HandleFunc("/api/capacity", s.ask(s.asked, s.capacity))
	mux.HandleFunc("/api/cost", s.ask(s.asked, s.cost)) // it reads prices
	mux.HandleFunc("/api/past", s.ask(s.looked, s.pastOf))
	mux.HandleFunc("/api/moment", s.ask(s.looked, s.moment))
	mux.HandleFunc("/api/difference", s.ask(s.looked, s.difference))
	mux.HandleFunc("/api/happened", s.ask(s.looked, s.happened))
	mux.HandleFunc("/api/whatif", s.ask(s.asked, s.imagine))
	if s.may != nil {
		mux.HandleFunc("/api/rights", s.ask(nil, s.rights))
	}
}

// ask makes a handler of a question that waits for its turn; nil: what is known already takes none. Errors are told in a sentence, as the
// command line has them.
func (s *desk) ask(turn *turns, question func(context.Context, url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
		defer cancel()
		if turn != nil {
			leave, err := turn.take(ctx, s.namespace, s.person)
			if err != nil {
				s.fail(w, err)
				return
			}
			defer leave()
		}
		value, err := question(ctx, r.URL.Query())
		if err != nil {
			s.fail(w, err)
			return
		}
		if file, ok := value.(csvFile); ok {
			w.Header().Set("Content-Type", "text/csv; charset=utf-8")
			w.Header().Set("Content-Disposition", `attachment; filename="`+file.name+`"`)
			w.Write(file.text)
			return
		}
		text, err := json.Marshal(value)
		if err != nil {
			s.fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(text)
	}
}

// csvFile is an answer that is kept rather than shown.
type csvFile struct {
	name string
	text []byte
}

// badQuestion is one that cannot be answered as it was put.
type badQuestion string

func (b badQuestion) Error() string { return string(b) }

func (s *desk) fail(w http.ResponseWriter, err error) {
	code := http.StatusBadGateway
	switch {
	case errors.As(err, new(badQuestion)):
		code = http.StatusBadRequest
	case errors.As(err, new(fullError)):
		code = http.StatusServiceUnavailable
	case apierrors.IsForbidden(err):
		code = http.StatusForbidden
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(encode(map[string]string{"error": err.Error()}))
}

func (s *desk) why(ctx context.Context, q url.Values) (any, error) {
	ref := facts.Ref{Namespace: q.Get("namespace"), Name: q.Get("name")}
	if len(ref.Namespace) > mostName || len(ref.Name) > mostName {
		return nil, badQuestion("that is no name")
	}
	if kind := q.Get("kind"); kind != "" {
		var err error
		if ref.Kind, err = facts.ParseKind(kind); err != nil {
			return nil, badQuestion(err.Error())
		}
	}
	return s.questions.Why(ctx, ref)
}

func (s *desk) fit(ctx context.Context, q url.Values) (any, error) {
	shape := Shape{Model: q.Get("model"), Queue: q.Get("queue"), Level: q.Get("level")}
	var err error
	if shape.Pods, err = number(q, "pods", 1, mostPods); err != nil {
		return nil, err
	}
	if shape.GPUs, err = number(q, "gpus", 1, mostGPUs); err != nil {
		return nil, err
	}
	if len(shape.Model) > mostName || len(shape.Queue) > mostName || len(shape.Level) > mostName {
		return nil, badQuestion("that is no name")
	}
	return s.questions.Fit(ctx, shape)
}

func (s *desk) capacity(ctx context.Context, q url.Values) (any, error) {
	by := q.Get("by")
	if by == "" {
		by = "cause"
	}
	value, text, err := s.questions.Capacity(ctx, by)
	if err == nil && q.Get("format") == "csv" {
		return csvFile{"berth-capacity.csv", text}, nil
	}
	return value, err
}

func (s *desk) cost(ctx context.Context, q url.Values) (any, error) {
	from, to, err := timesOf(q)
	if err != nil {
		return nil, err
	}
	value, text, err := s.questions.Cost(ctx, cmp.Or(q.Get("by"), "queue"), from, to)
	if err == nil && q.Get("format") == "csv" {
		return csvFile{"berth-cost.csv", text}, nil
	}
	return value, err
}

func (s *desk) happened(ctx context.Context, q url.Values) (any, error) {
	from, to, err := timesOf(q)
	if err != nil {
		return nil, err
	}
	return s.questions.Happened(ctx, from, to)
}

// mostWishes bounds the rights that are looked at for one question.
const mostWishes = 100

// rights says which kinds the viewer may read themselves, of those that are asked about as KIND.GROUP:NAMESPACE. What they may read and an
// answer does not have is what the page itself may not.
func (s *desk) rights(ctx context.Context, q url.Values) (any, error) {
	out := struct {
		Mine []string `json:"mine"`
	}{Mine: []string{}}
	if len(q["of"]) > mostWishes {
		return nil, badQuestion(fmt.Sprintf("ask about %d kinds at most", mostWishes))
	}
	for _, of := range q["of"] {
		name, namespace, _ := strings.Cut(of, ":")
		i := slices.IndexFunc(facts.Kinds, func(k *facts.KindInfo) bool { name, _, _ := strings.Cut(name, "/"); return k.Name() == name })
		if i < 0 {
			continue
		}
		w := wish{group: facts.Kinds[i].Group, resource: facts.Kinds[i].Resource, namespace: namespace}
		_, w.below, _ = strings.Cut(name, "/")
		if !facts.Kinds[i].Namespaced {
			w.namespace = ""
		}
		ok, err := s.may(ctx, w)
		if err != nil {
			return nil, err
		}
		if ok {
			out.Mine = append(out.Mine, of)
		}
	}
	return out, nil
}

// timesOf reads a span, in milliseconds. It may be empty: what was decided at one moment.
func timesOf(q url.Values) (from, to time.Time, err error) {
	first, err := number(q, "from", 0, 1<<52)
	if err != nil {
		return from, to, err
	}
	last, err := number(q, "to", first, 1<<52)
	return time.UnixMilli(first), time.UnixMilli(last), err
}

func (s *desk) imagine(ctx context.Context, q url.Values) (any, error) {
	quota, err := number(q, "quota", 0, 10_000)
	if err != nil {
		return nil, err
	}
	queue := q.Get("queue")
	if queue == "" || len(queue) > mostName {
		return nil, badQuestion("which queue?")
	}
	return s.questions.Imagine(ctx, queue, quota)
}

func number(q url.Values, name string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		return 0, badQuestion(fmt.Sprintf("%s: give a number from %d to %d", name, least, most))
	}
	return n, nil
}
