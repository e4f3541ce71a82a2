package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/cli"
)

// The page gives the answers of the command line. Every story of testdata/script holds it to that without a word of its own: what a story
// asks of the command line is asked of the page too, at that moment, and everything that the page can be asked is compared of each cluster
// that runs before the story stops it, or ends (ADR 156).

// page is the page of a cluster, signed in to, and the command line beside it.
type page struct {
	client *http.Client
	base   string                                            // with a slash at its end
	key    string                                            // that requests carry
	run    func(in string, args ...string) (out, err []byte) // the command line, with a text at its standard input
}

// openPage follows a link that nobody used yet.
func openPage(link string, run func(in string, args ...string) (out, err []byte)) (*page, error) {
	at, err := url.Parse(link)
	if err != nil {
		return nil, err
	}
	p := &page{client: &http.Client{Timeout: 90 * time.Second}, run: run}
	r, err := p.client.Get(link)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	pass := passIn.FindSubmatch(text)
	if err != nil || r.StatusCode != http.StatusOK || pass == nil {
		return nil, fmt.Errorf("the link to the page: %s, %v", r.Status, err)
	}
	p.base, p.key = "http://"+at.Host+string(pass[1]), string(pass[2])
	return p, nil
}

// passIn is what the link gives a browser to keep.
var passIn = regexp.MustCompile(`\{"path":"(/[0-9a-f]+/)","key":"([0-9a-f]+)"\}`)

// table is what the page shows: a whole that may be of a while ago, and the changes since, which the stream has.
func (p *page) table() map[string]any {
	var whole struct {
		To int64  `json:"to"`
		Of string `json:"of"`
	}
	out := map[string]any{}
	header, text, err := p.get("table")
	if err != nil || json.Unmarshal(text, &whole) != nil {
		return map[string]any{"error": fmt.Sprintf("%v %s", err, text)}
	}
	apply(out, text)
	latest, _ := strconv.ParseInt(header.Get("Berth-Version"), 10, 64)
	if whole.To >= latest {
		return map[string]any{"set": out}
	}
	request, err := p.request(fmt.Sprintf("stream?of=%s&since=%d", whole.Of, whole.To))
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	r, err := p.client.Do(request)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	defer r.Body.Close()
	event, lines := "", bufio.NewScanner(r.Body)
	for lines.Buffer(nil, 64<<20); whole.To < latest && lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && event == "table" {
			apply(out, []byte(data))
			if json.Unmarshal([]byte(data), &whole) != nil {
				break
			}
		}
	}
	if err := lines.Err(); err != nil {
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{"set": out}
}

// apply makes a table what it is after a message.
func apply(table map[string]any, text []byte) {
	var m struct {
		Whole bool                      `json:"whole"`
		Set   map[string]map[string]any `json:"set"`
		Gone  map[string][]string       `json:"gone"`
	}
	if json.Unmarshal(text, &m) != nil {
		return
	}
	if m.Whole {
		clear(table)
	}
	for kind, values := range m.Set {
		of, ok := table[kind].(map[string]any)
		if !ok {
			of = map[string]any{}
			table[kind] = of
		}
		maps.Copy(of, values)
	}
	for kind, names := range m.Gone {
		of, _ := table[kind].(map[string]any)
		for _, name := range names {
			delete(of, name)
		}
	}
}

func (p *page) request(path string) (*http.Request, error) {
	r, err := http.NewRequest("GET", p.base+"api/"+path, nil)
	if err == nil {
		r.Header.Set("Berth-Key", p.key)
	}
	return r, err
}

func (p *page) get(path string) (http.Header, []byte, error) {
	request, err := p.request(path)
	if err != nil {
		return nil, nil, err
	}
	r, err := p.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.Header, text, err
}

// ask is what the page answers; where that is an error, its sentence.
func (p *page) ask(path string, q url.Values) (value any) {
	request, err := p.request(path + "?" + q.Encode())
	if err != nil {
		return err.Error()
	}
	r, err := p.client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(text, &value) != nil {
		return fmt.Sprintf("%v %s", err, text)
	}
	if said, ok := field(value, "error").(string); ok && r.StatusCode != http.StatusOK {
		return said
	}
	return value
}

// command is what a command answers; where that is an error, its sentence.
func (p *page) command(args ...string) any { return p.commandOf("", args...) }

func (p *page) commandOf(in string, args ...string) (value any) {
	out, said := p.run(in, append(args, "-o", "json")...)
	if json.Unmarshal(out, &value) == nil {
		return value
	}
	return strings.TrimPrefix(strings.TrimSpace(string(said)), "error: ")
}

// field is a value below others.
func field(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func items(v any) (out []map[string]any) {
	list, _ := v.([]any)
	for _, x := range list {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// question is one that can be asked of both.
type question struct {
	name    string
	command func() any
	page    func() any
	cut     []string // fields that only one of them has, at any depth
}

// why is about one workload or pod, or, without a target, about all that waits in a namespace or in all of them.
func (p *page) why(target, namespace string) question {
	kind, name, ok := strings.Cut(target, "/")
	if !ok {
		kind, name = "", target
	}
	args := []string{"why", target}
	switch {
	case target == "" && namespace == "":
		args = []string{"why", "-A"}
	case target == "":
		args = []string{"why", "-n", namespace}
	case namespace != "":
		args = append(args, "-n", namespace)
	}
	q := url.Values{"namespace": {namespace}, "kind": {kind}, "name": {name}}
	command := func() any {
		v := p.command(args...)
		if said, ok := v.(string); ok && strings.Contains(said, "cannot be read in all namespaces") {
			v = p.command("why") // the page shows what they may see
		}
		if all, ok := v.(map[string]any); ok && target == "" {
			delete(all, "apiVersion") // of the list
			delete(all, "kind")
		}
		return v
	}
	return question{strings.Join(args, " "), command, func() any { return p.ask("why", q) }, []string{"advice", "created"}}
}

// rows are the values of one kind of the page's table, as the command lists them: in their order where they have one.
func (p *page) rows(kind string) any {
	all := p.table()
	of, has := field(all, "set", kind).(map[string]any)
	if said := field(all, "set", "line", "scheduler", "error"); said != nil && (kind == "workload" || !has) {
		return silent
	}
	out := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if row, ok := of[name].(map[string]any); ok {
			out = append(out, row)
		}
	}
	slices.SortStableFunc(out, func(a, b map[string]any) int {
		x, _ := a["order"].(float64)
		y, _ := b["order"].(float64)
		return cmp.Compare(x, y)
	})
	return lined(out)
}

// silent is where neither queues nor workloads can be had. The page has one sentence for both.
const silent = "no answer"

// listed is what a command lists, in the same form.
func listed(v any) any {
	if _, ok := v.(map[string]any); !ok {
		return silent
	}
	return lined(items(field(v, "items")))
}

// lined has the names of what waits besides, in the order of the line.
func lined(rows []map[string]any) any {
	all, line := []any{}, []any{}
	for _, r := range rows {
		all = append(all, r)
		if r["state"] == "waiting" || r["state"] == nil { // queues are in the order of the tree
			line = append(line, named(r))
		}
	}
	return map[string]any{"items": all, "line": line}
}

// others are the questions that are about no workload.
func (p *page) others() []question {
	return []question{p.queues(), p.line(), p.capacity("pool"), p.fleet()}
}

func (p *page) queues() question {
	return question{"queue", func() any { return listed(p.command("queue")) }, func() any { return p.rows("queue") }, []string{"order"}}
}

func (p *page) line() question {
	command := func() any {
		v := p.command("jobs", "-A")
		if said, ok := v.(string); ok && strings.Contains(said, "you may not look at all namespaces") {
			v = p.command("jobs") // the page shows what they may see
		}
		return listed(v)
	}
	return question{"jobs -A", command, func() any { return p.rows("workload") }, []string{"order", "title", "ahead", "others"}}
}

func (p *page) capacity(by string) question {
	return question{"capacity --by " + by, func() any { return p.command("capacity", "--by", by) }, func() any { return p.ask("capacity", url.Values{"by": {by}}) }, nil}
}

// fleet is how many GPUs of nodes reached each stage: what the picture is made of.
func (p *page) fleet() question {
	nodes := func(reached any) any { // GPUs that have no node are no cells
		m, ok := reached.(map[string]any)
		if !ok {
			return "nothing"
		}
		out := map[string]any{}
		for _, stage := range []string{"registered", "ready", "advertised", "healthy", "schedulable", "allocated"} {
			if n, _ := m[stage].(float64); n > 0 {
				out[stage] = n
			}
		}
		return out
	}
	return question{
		"the fleet", func() any { return nodes(field(p.command("capacity"), "total", "reached")) },
		func() any { return nodes(field(p.table(), "set", "total", "fleet", "reached")) }, nil,
	}
}

// cost is about the hour up to a moment ago.
func (p *page) cost(by string) question {
	to := time.Now().Add(-time.Second).Truncate(time.Millisecond)
	from := to.Add(-time.Hour)
	q := url.Values{"by": {by}, "from": {strconv.FormatInt(from.UnixMilli(), 10)}, "to": {strconv.FormatInt(to.UnixMilli(), 10)}}
	return question{
		"cost --by " + by, func() any {
			return p.command("cost", "--by", by, "--since", from.UTC().Format(time.RFC3339Nano), "--until", to.UTC().Format(time.RFC3339Nano))
		}, func() any { return p.ask("cost", q) }, nil,
	}
}

// replay is what was decided in the minute up to a moment ago. The command prints a line for each, the page the latest first.
func (p *page) replay() question {
	to := time.Now().Add(-time.Second).Truncate(time.Millisecond)
	from := to.Add(-time.Minute)
	q := url.Values{"from": {strconv.FormatInt(from.UnixMilli(), 10)}, "to": {strconv.FormatInt(to.UnixMilli(), 10)}}
	return question{
		"replay --from --to", func() any {
			out, said := p.run("", "replay", "--from", from.UTC().Format(time.RFC3339Nano), "--to", to.UTC().Format(time.RFC3339Nano), "-o", "json")
			all := []any{}
			for d := json.NewDecoder(bytes.NewReader(out)); ; {
				var v any
				if err := d.Decode(&v); err != nil {
					break
				}
				all = append(all, v)
			}
			if len(all) == 0 && len(said) > 0 {
				return strings.TrimPrefix(strings.TrimSpace(string(said)), "error: ")
			}
			return all
		}, func() any {
			v := p.ask("happened", q)
			all, ok := field(v, "Items").([]any)
			if !ok {
				return v
			}
			slices.Reverse(all)
			return all
		}, nil,
	}
}

// whatif is another quota of a queue.
func (p *page) whatif(queue, quota string) question {
	q := url.Values{"queue": {queue}, "quota": {quota}}
	return question{"whatif --quota " + queue + "=" + quota, func() any { return p.command("whatif", "--quota", queue+"="+quota) }, func() any { return p.ask("whatif", q) }, nil}
}

// fit is where pods of a shape would start: what the page asks for a shape, a person asks of `berth check` with a manifest.
func (p *page) fit(pods, gpus int, model, queue, level string) question {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: shape}\nspec:\n  completionMode: Indexed\n  completions: %d\n  parallelism: %d\n  template:\n    metadata:\n      annotations: {berth.dev/gang: shape, berth.dev/min: %q", pods, pods, strconv.Itoa(pods))
	if level != "" {
		fmt.Fprintf(&b, ", berth.dev/topology-required: %s", level)
	}
	b.WriteString("}\n")
	if queue != "" {
		fmt.Fprintf(&b, "      labels: {berth.dev/queue: %s}\n", queue)
	}
	b.WriteString("    spec:\n      schedulerName: berth\n      restartPolicy: Never\n")
	if model != "" {
		fmt.Fprintf(&b, "      nodeSelector: {nvidia.com/gpu.product: %s}\n", model)
	}
	fmt.Fprintf(&b, "      containers:\n      - {name: main, image: busybox, resources: {limits: {nvidia.com/gpu: %d}}}\n", gpus)
	q := url.Values{"pods": {strconv.Itoa(pods)}, "gpus": {strconv.Itoa(gpus)}, "model": {model}, "queue": {queue}, "level": {level}}
	name := strings.TrimSpace(fmt.Sprintf("check of %d x %d %s %s %s", pods, gpus, model, queue, level))
	return question{name, func() any { return p.commandOf(b.String(), "check", "-f", "-", "--dry-run=false", "--timeout", "20s") }, func() any { return p.ask("fit", q) }, []string{"file", "line"}}
}

// everything is all that the page can be asked of a cluster as it is now.
func (p *page) everything() []question {
	out := append(p.others(), p.why("", ""), p.cost("queue"), p.replay())
	seen := make(map[any]bool)
	for _, w := range items(field(p.command("jobs", "-A"), "items")) { // one that waits and one that runs
		if owner := field(w, "owner"); owner != nil && !seen[w["state"]] {
			seen[w["state"]] = true
			out = append(out, p.why(fmt.Sprintf("%s/%s", strings.ToLower(fmt.Sprint(field(owner, "kind"))), field(owner, "name")), fmt.Sprint(field(w, "metadata", "namespace"))))
		}
	}
	queue := ""
	if all := items(field(p.command("queue"), "items")); len(all) > 0 {
		queue = fmt.Sprint(field(all[len(all)-1], "metadata", "name"))
		out = append(out, p.whatif(queue, "3"))
	}
	model := ""
	if all, _ := field(p.table(), "set", "total", "models").([]any); len(all) > 0 {
		model = fmt.Sprint(all[0])
	}
	return append(out, p.fit(1, 1, "", "", ""), p.fit(3, 8, model, queue, "rack"))
}

// times are times and spans in text.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\b(\d+(\.\d+)?(h|m|s|ms))+\b|\b\d+(\.\d+)?\s?(ms|s|m|min|h|d|seconds?|minutes?|hours?)\b|\b\d\d:\d\d(:\d\d)?\b`)

// still is the value without times and what is cut, and lists of objects with names in the order of these.
func still(value any, cut []string) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			if !slices.Contains(cut, k) {
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
	meta, _ := field(v, "metadata").(map[string]any)
	if meta == nil {
		return ""
	}
	return fmt.Sprint(meta["namespace"], "/", meta["name"])
}

// settles is how long a difference has to stay to count: the page asks for the line once a second.
const settles = 6 * time.Second

// agrees asks both. The cluster lives: where the command gives two answers, the page may have given either, and a difference counts when
// it stays. answered is false where both said why they cannot answer.
func (p *page) agrees(q question) (differs string, answered bool) {
	for end := time.Now().Add(settles); ; {
		before, got := still(q.command(), q.cut), still(q.page(), q.cut)
		_, said := got.(string)
		if diff.Equal(before, got) {
			return "", !said
		}
		after := still(q.command(), q.cut)
		if diff.Equal(after, got) {
			return "", !said
		}
		if time.Now().After(end) {
			return fmt.Sprintf("%s: -the command +the page\n%s", q.name, diff.Diff(after, got)), true
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// agreesEnv names the file that the comparisons of a story are noted in. What a story runs has it; what `until` runs again and again has it
// once, at its end.
const agreesEnv = "BERTH_PAGE_AGREES"

// endOf is what stories never run: it compares everything of the clusters that are named.
const endOf = "end-of-story"

// berthAndPage is the program of stories: the command line, after the page of the same cluster was asked the same. Both are this process:
// a comparison costs what the questions cost.
func berthAndPage() {
	notes := os.Getenv(agreesEnv)
	os.Unsetenv(agreesEnv)
	if notes != "" && len(os.Args) > 1 {
		besides(notes, os.Args[1:])
	}
	main()
}

// besides compares what the command line is about to be asked.
func besides(notes string, args []string) {
	switch args[0] {
	case endOf:
		for _, name := range args[1:] {
			compare(notes, []string{"--name", name}, nil, (*page).everything)
		}
		os.Exit(0)
	case "down":
		if a, ok := parseAsked(append([]string{"why"}, args[1:]...)); ok && len(a.connection) == 0 {
			compare(notes, []string{"--name", "berth"}, nil, (*page).everything)
		} else if ok {
			compare(notes, a.connection, nil, (*page).everything)
		}
		return
	}
	if a, ok := parseAsked(args); ok {
		compare(notes, a.connection, a.metrics, func(p *page) []question { return []question{a.question(p)} })
	}
}

// note is one comparison.
type note struct {
	Asked   string
	Seconds float64
	CPU     float64 // seconds of this process
	Differs string  // "": it does not
	None    bool    // nobody had an answer: a story may be about that
}

// compare asks the page of a cluster, and the command line.
func compare(notes string, connection, metrics []string, questions func(*page) []question) {
	began, used := time.Now(), processor()
	tell := func(n note) {
		n.Seconds, n.CPU = time.Since(began).Seconds(), processor()-used
		began, used = time.Now(), processor()
		text, _ := json.Marshal(n) // strings
		f, err := os.OpenFile(notes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		f.Write(append(text, '\n'))
	}
	p, err := serveBesides(connection, metrics)
	if err != nil {
		tell(note{Asked: "the page: " + err.Error(), None: true})
		return
	}
	for _, q := range questions(p) {
		differs, answered := p.agrees(q)
		tell(note{Asked: q.name, Differs: differs, None: !answered})
	}
}

// processor is the processor time of this process, in seconds.
func processor() float64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // fails for no such argument
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

// serveBesides serves the page in this process, until it ends.
func serveBesides(connection, metrics []string) (*page, error) {
	pflag.CommandLine = pflag.NewFlagSet("berth", pflag.ContinueOnError)
	run := func(in string, args ...string) (out, err []byte) {
		var o, e bytes.Buffer
		if args[0] == "capacity" {
			args = append(args, metrics...)
		}
		cli.Main(append(args, connection...), cli.Streams{In: strings.NewReader(in), Out: &o, Err: &e}, deps())
		return o.Bytes(), e.Bytes()
	}
	r, w := io.Pipe()
	ended := make(chan string, 1)
	go func() {
		var e bytes.Buffer
		cli.Main(slices.Concat([]string{"ui"}, connection, metrics), cli.Streams{In: strings.NewReader(""), Out: w, Err: &e}, deps())
		ended <- strings.TrimSpace(e.String())
		w.Close()
	}()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if link := linkIn.FindString(lines.Text()); link != "" {
			go io.Copy(io.Discard, r)
			return openPage(link, run)
		}
	}
	return nil, fmt.Errorf("%s", <-ended)
}

// asked is what a story's command line asks, of whom.
type asked struct {
	command, target      string
	namespace, by, quota string
	all                  bool
	connection, metrics  []string
}

// parseAsked reads a command line. Not ok is one that the page has no question for: about a file, or about a cluster that is not there.
func parseAsked(args []string) (a asked, ok bool) {
	if len(args) == 0 || !slices.Contains([]string{"why", "queue", "jobs", "capacity", "cost", "whatif", "check"}, args[0]) {
		return a, false
	}
	a.command = args[0]
	var names []string
	for args = args[1:]; len(args) > 0; args = args[1:] {
		flag, value, has := strings.Cut(args[0], "=")
		if !strings.HasPrefix(flag, "-") {
			names = append(names, args[0])
			continue
		}
		switch flag {
		case "-A", "--all-namespaces":
			a.all = true
			continue
		case "--waiting", "--unpriced", "--purge", "--dry-run":
			continue
		}
		if !has && len(args) < 2 {
			return a, false
		}
		if !has {
			args = args[1:]
			value = args[0]
		}
		switch flag {
		case "-n", "--namespace":
			a.namespace = value
		case "--by":
			a.by = value
		case "-o", "--output", "-f", "--filename", "--timeout", "--fail-on", "--since", "--until":
		case "--quota":
			if a.quota != "" {
				return a, false
			}
			a.quota = value
		case "--metrics":
			if value == "-" {
				return a, false
			}
			a.metrics = append(a.metrics, flag, value)
		case "--kubeconfig", "--context", "--name":
			a.connection = append(a.connection, flag, value)
		case "--drain", "--add-nodes":
			a.quota = "another question"
		default:
			return a, false
		}
	}
	a.target = strings.Join(names, "/")
	switch a.command {
	case "queue", "cost", "capacity":
		return a, a.target == ""
	case "whatif":
		return a, a.target == "" && strings.Contains(a.quota, "=")
	case "why":
		if a.target == "" && a.namespace == "" && !a.all {
			a.namespace = "default"
		}
	}
	return a, true
}

// question is what to ask of both.
func (a *asked) question(p *page) question {
	switch a.command {
	case "why":
		return p.why(a.target, a.namespace)
	case "queue":
		return p.queues()
	case "jobs":
		return p.line()
	case "capacity":
		return p.capacity(cmp.Or(a.by, "reservation"))
	case "cost":
		return p.cost(cmp.Or(a.by, "queue"))
	case "whatif":
		queue, n, _ := strings.Cut(a.quota, "=")
		return p.whatif(queue, n)
	}
	return p.fit(2, 4, "", "", "") // of check
}

func TestParseAsked(t *testing.T) {
	for args, want := range map[string]bool{
		"why job/x -n a -o json": true, "why job x": true, "why -A": true, "why": true, "why job/x --from b.tgz": false, "queue": true, "queue set x": false, "queue -o": false,
		"jobs -A": true, "jobs": true, "jobs job/x --waiting": true, "capacity --by pool": true, "capacity --metrics x": true, "whatif --quota a=1": true, "whatif --quota=a=1 -f x": true,
		"whatif --drain x": false, "up": false, "": false, "why job/x --kubeconfig k": true, "cost --since 1h": true, "check -f x": true, "check -f x --fleet lab": false, "replay": false,
	} {
		if a, ok := parseAsked(strings.Fields(args)); ok != want {
			t.Errorf("%s: %v %+v", args, ok, a)
		}
	}
}

// uncompared are the stories that are held to nothing by the page, and why.
var uncompared = map[string]string{}

// heldToPage has a story compared. It returns what is to be done at its end, while its clusters still run.
func heldToPage(e *testscript.Env, notes string) (end func()) {
	name := strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")
	file := filepath.Join(notes, name)
	e.Setenv(agreesEnv, file)
	return func() {
		t, ok := e.T().(interface {
			Failed() bool
			Skipped() bool
			Errorf(string, ...any)
		})
		if !ok || t.Failed() || t.Skipped() {
			return
		}
		args := []string{endOf}
		home := e.Getenv("BERTH_HOME")
		dirs, _ := filepath.Glob(filepath.Join(home, "*"))
		for _, d := range dirs {
			if holder(d) != 0 {
				args = append(args, filepath.Base(d))
			}
		}
		cmd := exec.Command("berth", args...)
		cmd.Env = append(os.Environ(), "BERTH_HOME="+home, "HOME="+e.Getenv("HOME"), agreesEnv+"="+file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("compare with the page at the end: %v\n%s", err, out)
		}
		compared, none, took, used := 0, []string{}, 0.0, 0.0
		text, _ := os.ReadFile(file) // there is none where nothing was asked
		for d := json.NewDecoder(bytes.NewReader(text)); ; {
			var n note
			if d.Decode(&n) != nil {
				break
			}
			took, used = took+n.Seconds, used+n.CPU
			switch {
			case n.Differs != "":
				t.Errorf("the page does not agree: %s", n.Differs)
			case n.None:
				none = append(none, n.Asked)
			default:
				compared++
			}
		}
		e.T().Log(fmt.Sprintf("%s held to the page: %d answers in %.1f s, %.1f s of a core; no answer: %q", name, compared, took, used, none))
		if why := uncompared[name]; why == "" && compared == 0 {
			t.Errorf("not one answer was compared with the page: say why in uncompared. No answer: %q", none)
		} else if why != "" && compared > 0 {
			t.Errorf("%d answers were compared with the page, though uncompared says %q", compared, why)
		}
	}
}
