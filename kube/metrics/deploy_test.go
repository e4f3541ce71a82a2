package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/fleet/dcgm"
)

const (
	rulesFile = "../../deploy/prometheus/berth.yaml"
	rulesTest = "../../deploy/prometheus/berth_test.yaml"
)

// query is one of a panel.
type query struct{ where, expr string }

// boards are the queries of all boards.
func boards(t *testing.T) (out []query) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Type, Title string
				Targets     []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(file, err)
		}
		for _, p := range board.Panels {
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: %s asks nothing", file, p.Title)
			}
			for _, q := range p.Targets {
				out = append(out, query{filepath.Base(file) + ": " + p.Title, q.Expr})
			}
		}
	}
	return out
}

var names = regexp.MustCompile(`\b(berth[_:][a-z0-9_:]+|DCGM_[A-Z0-9_]+)`)

// Rules and boards name metrics that Berth serves, that dcgm-exporter serves by default, or that the rules record.
func TestRulesAndBoardsNameWhatIsServed(t *testing.T) {
	known := make(map[string]bool)
	for _, m := range Catalogue() {
		for _, name := range m.Series() {
			known[name] = true
		}
	}
	for name := range dcgm.DefaultCollectors() {
		known[name] = true
	}
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	rules := regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(string(text), "")
	for _, m := range regexp.MustCompile(`(?m)record: (\S+)$`).FindAllStringSubmatch(rules, -1) {
		known[m[1]] = true
	}
	for _, q := range append(boards(t), query{rulesFile, rules}) {
		found := names.FindAllString(q.expr, -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric: %s", q.where, q.expr)
		}
		for _, name := range found {
			if !known[name] {
				t.Errorf("%s: nobody serves %s", q.where, name)
			}
		}
	}
}

// tool is a program of Debian's package prometheus. Without it the test is skipped by name.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed (package prometheus of Debian)", name)
	}
	return path
}

func TestRules(t *testing.T) {
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", rulesTest}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	// Each alert has a case in which it fires and the others of the file do not keep it from doing so.
	rules, _ := os.ReadFile(rulesFile)
	cases, _ := os.ReadFile(rulesTest)
	for _, m := range regexp.MustCompile(`(?m)alert: (\S+)$`).FindAllStringSubmatch(string(rules), -1) {
		if !regexp.MustCompile(m[1] + `\n +exp_alerts: \[\{`).Match(cases) {
			t.Errorf("%s has no case in which it fires", m[1])
		}
	}
}

// Every query of the boards has an answer from a Prometheus that scraped a scheduler, the account of paid GPUs and an exporter,
// and every rule is evaluated without an error.
func TestQueriesAreAnswered(t *testing.T) {
	program := tool(t, "prometheus")
	if testing.Short() {
		t.Skip("it takes seconds of real time")
	}
	r := sample(t, 2)
	r.writes.WithLabelValues("post", "pods", "500").Inc()
	paid, err := Seam([]capacity.Sum{{Account: capacity.Account{Cause: "node-not-ready", Owner: "platform"}, GPUs: 8, PerHour: 2e6, Currency: "USD"}})
	if err != nil {
		t.Fatal(err)
	}
	devices := "DCGM_FI_DEV_GPU_UTIL{pod=\"a\"} 0\nDCGM_FI_DEV_XID_ERRORS{Hostname=\"n1\"} 79\n"
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.Started("team-0001", 4, time.Second)
		io.WriteString(w, text(t, r)+paid+devices)
	}))
	defer target.Close()
	ask := scrape(t, program, target.Listener.Addr().String())
	left := boards(t)
	replace := strings.NewReplacer("$__rate_interval", "20s", "$queue", ".*")
	for deadline := time.Now().Add(time.Minute); len(left) > 0; time.Sleep(200 * time.Millisecond) {
		var still []query
		for _, q := range left {
			answer, err := ask("query?query=" + url.QueryEscape(replace.Replace(q.expr)))
			if err != nil && time.Now().After(deadline) {
				t.Errorf("%s: %v", q.where, err)
			} else if err == nil && !strings.Contains(answer, `"value":[`) {
				err = fmt.Errorf("no answer: %s", answer)
			}
			if err != nil {
				still = append(still, q)
			}
		}
		if left = still; time.Now().After(deadline) {
			t.Fatalf("not answered: %q", left)
		}
	}
	answer, err := ask("rules")
	if err != nil || strings.Contains(answer, `"health":"err"`) || strings.Count(answer, `"alerts":[`) < 10 {
		t.Errorf("%v: %s", err, answer)
	}
}

// scrape has a Prometheus scrape the target every second, until the test ends, and returns how to ask its API.
func scrape(t *testing.T, program, target string) func(path string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs: [{job_name: berth, static_configs: [{targets: [%q]}]}]\n", rules, target)
	if err := os.WriteFile(filepath.Join(folder, "p.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, program, "--config.file", filepath.Join(folder, "p.yaml"), "--storage.tsdb.path", filepath.Join(folder, "data"), "--web.listen-address", address)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = c.Wait() })
	return func(path string) (string, error) {
		answer, err := http.Get("http://" + address + "/api/v1/" + path)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", answer.Status, body)
		}
		return string(body), err
	}
}
