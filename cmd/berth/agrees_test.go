package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// page is the page of a cluster, signed in to, and the command line beside it.
type page struct {
	client *http.Client
	base   string // with a slash at its end
	run    func(args ...string) []byte
}

// openPage follows a link that nobody used yet.
func openPage(link string, run func(args ...string) []byte) (*page, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(link)
	if err != nil {
		return nil, err
	}
	p := &page{client: &http.Client{Jar: jar, Timeout: 90 * time.Second}, base: "http://" + at.Host + "/", run: run}
	r, err := p.client.Get(link)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the link to the page: %s", r.Status)
	}
	return p, nil
}

func (p *page) ask(path string) (value any) {
	r, err := p.client.Get(p.base + "api/" + path)
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(text, &value) != nil {
		return fmt.Sprintf("%v %s", err, text)
	}
	return value
}

func (p *page) command(args ...string) (value any) {
	text := p.run(append(args, "-o", "json")...)
	if json.Unmarshal(text, &value) != nil {
		return string(text)
	}
	return value
}

// question is one that can be asked of both.
type question struct {
	name string
	page func() any
	args []string // of the command
	cut  []string // fields that only one of them has, at any depth
}

// why is about one workload or pod.
func (p *page) why(target, namespace string) question {
	kind, name, ok := strings.Cut(target, "/")
	if !ok {
		kind, name = "", target
	}
	args := []string{"why", target}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	q := url.Values{"namespace": {namespace}, "kind": {kind}, "name": {name}}
	return question{"why " + target, func() any { return p.ask("why?" + q.Encode()) }, args, []string{"advice", "created"}}
}

// others are the questions that are about no workload.
func (p *page) others() []question {
	rows := func(kind string) func() any {
		return func() any {
			all, _ := p.ask("table").(map[string]any)
			set, _ := all["set"].(map[string]any)
			of, _ := set[kind].(map[string]any)
			out := []any{}
			for _, v := range of {
				out = append(out, v)
			}
			return map[string]any{"items": out, "metadata": map[string]any{}} // as the command wraps them
		}
	}
	return []question{
		{"queues", rows("queue"), []string{"queue"}, []string{"order"}},
		{"the line", rows("workload"), []string{"jobs", "-A"}, []string{"order", "title", "ahead", "others"}},
		{"the ledger", func() any { return p.ask("capacity?by=pool") }, []string{"capacity", "--by", "pool"}, nil},
	}
}

// moving are fields that differ from one second to the next.
var moving = []string{"at", "since", "gpuSeconds", "spent", "likely", "earliest", "because", "metadata.resourceVersion", "kind", "apiVersion"}

// times are times and spans in text.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d+(\.\d+)?\s?(ms|s|m|min|h|d|seconds?|minutes?|hours?)\b|\b\d\d:\d\d(:\d\d)?\b`)

// still is the value without what moves, and lists of objects with names in the order of these.
func still(value any, cut []string) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			if !slices.Contains(moving, k) && !slices.Contains(cut, k) {
				out[k] = still(x, cut)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = still(v[i], cut)
		}
		slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(named(a), named(b)) })
		return out
	case string:
		return times.ReplaceAllString(v, "T")
	}
	return value
}

func named(v any) string {
	m, _ := v.(map[string]any)
	meta, _ := m["metadata"].(map[string]any)
	if meta == nil {
		return ""
	}
	return fmt.Sprint(meta["namespace"], "/", meta["name"])
}

// agrees asks both. The cluster lives, so a difference counts when it stays.
func (p *page) agrees(q question) (diff string) {
	for range 8 {
		want, got := still(p.command(q.args...), q.cut), still(q.page(), q.cut)
		if diff = cmp.Diff(want, got); diff == "" {
			return ""
		}
		time.Sleep(700 * time.Millisecond)
	}
	return fmt.Sprintf("%s: -berth %s +the page\n%s", q.name, strings.Join(q.args, " "), diff)
}

// agreesEnv has every question that a story asks asked of the page too. Stories have it in long runs; what `until` runs has not.
const agreesEnv = "BERTH_PAGE_AGREES"

// berthAndPage is the program of stories: the command line, after the page of the same cluster gave the same answer.
func berthAndPage() {
	if os.Getenv(agreesEnv) != "" {
		os.Unsetenv(agreesEnv) // of the commands below
		if diff := agreesWithPage(os.Args[1:]); diff != "" {
			fmt.Fprintln(os.Stderr, diff)
			os.Exit(99)
		}
	}
	main()
}

// asked is what a story's command line asks, of whom. Not ok is one that the page has no question for.
type asked struct {
	command, target string
	namespace       string
	all             bool
	quota           string
	connection      []string
}

func parseAsked(args []string) (a asked, ok bool) {
	if len(args) == 0 || !slices.Contains([]string{"why", "queue", "jobs", "capacity", "whatif"}, args[0]) {
		return a, false
	}
	a.command = args[0]
	for args = args[1:]; len(args) > 0; args = args[1:] {
		flag := args[0]
		if !strings.HasPrefix(flag, "-") {
			if a.target != "" {
				return a, false
			}
			a.target = flag
			continue
		}
		if flag == "-A" {
			a.all = true
			continue
		}
		if len(args) < 2 {
			return a, false
		}
		switch args = args[1:]; flag {
		case "-n":
			a.namespace = args[0]
		case "-o", "--by":
		case "--quota":
			if a.quota != "" {
				return a, false
			}
			a.quota = args[0]
		case "--kubeconfig", "--context", "--name":
			a.connection = append(a.connection, flag, args[0])
		default:
			return a, false
		}
	}
	switch a.command {
	case "why":
		ok = a.target != "" && !a.all
	case "queue":
		ok = a.target == "" && a.namespace == "" && !a.all
	case "jobs":
		ok = a.target == "" && a.all
	case "capacity":
		ok = a.target == ""
	case "whatif":
		ok = a.quota != "" && a.target == ""
	}
	return a, ok
}

// question is what to ask of both.
func (a *asked) question(p *page) question {
	switch a.command {
	case "why":
		return p.why(a.target, a.namespace)
	case "whatif":
		queue, n, _ := strings.Cut(a.quota, "=")
		q := url.Values{"queue": {queue}, "quota": {n}}
		return question{"what if", func() any { return p.ask("whatif?" + q.Encode()) }, []string{"whatif", "--quota", a.quota}, nil}
	}
	return p.others()[slices.Index([]string{"queue", "jobs", "capacity"}, a.command)]
}

// agreesWithPage says in what the page differs from the command line; "" where it does not, or has no such question, or there is no
// answer: a story may be about that.
func agreesWithPage(args []string) string {
	a, ok := parseAsked(args)
	if !ok {
		return ""
	}
	run := func(args ...string) []byte {
		out, _ := exec.Command("berth", append(args, a.connection...)...).Output() // some answers are an exit code too
		return out
	}
	ui := exec.Command("berth", append([]string{"ui"}, a.connection...)...)
	out, err := ui.StdoutPipe()
	if err != nil || ui.Start() != nil {
		return ""
	}
	defer func() { _ = ui.Process.Kill(); _ = ui.Wait() }()
	link := ""
	for lines := bufio.NewScanner(out); link == "" && lines.Scan(); {
		link = linkIn.FindString(lines.Text())
	}
	if link == "" {
		return ""
	}
	p, err := openPage(link, run)
	if err != nil {
		return err.Error()
	}
	q := a.question(p)
	if _, ok := p.command(q.args...).(map[string]any); !ok {
		return ""
	}
	return p.agrees(q)
}

func TestParseAsked(t *testing.T) {
	for args, want := range map[string]bool{
		"why job/x -n a -o json": true, "why job/x": true, "why -A": false, "why job/x --from b.tgz": false, "queue": true, "queue set x": false, "queue -o": false,
		"jobs -A": true, "jobs": false, "capacity --by pool": true, "capacity --metrics x": false, "whatif --quota a=1": true, "whatif --quota a=1 -f x": false,
		"whatif --drain x": false, "up": false, "": false, "why job/x --kubeconfig k": true,
	} {
		if a, ok := parseAsked(strings.Fields(args)); ok != want {
			t.Errorf("%s: %v %+v", args, ok, a)
		}
	}
}
