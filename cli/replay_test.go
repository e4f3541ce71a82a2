package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/controlplane/home"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/record"
)

// past is a decision log in a cluster's folder, and the plans as they were made. One pod starts, one waits for a node
// and gets it, and one is taken back while it waits: a cycle each, a second apart.
type past struct {
	dir   string
	start time.Time
	plans []engine.Plan
}

func newPast(t *testing.T, berth string) *past {
	t.Helper()
	root := t.TempDir()
	t.Setenv("BERTH_HOME", root)
	d := home.Named(root, defaultName)
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(home.Record{Format: home.Format, Name: defaultName}); err != nil {
		t.Fatal(err)
	}
	p := &past{dir: d.Decisions(), start: time.Now().Add(-10 * time.Minute).UTC().Truncate(time.Second)}
	s := engine.Load(engine.Snapshot{}, engine.Config{})
	w := record.Start(record.Options{Dir: p.dir, Berth: berth}, engine.Config{})
	for i, changes := range [][]engine.Change{
		{aNode("n1", 1), aPod("default/one", "", 2)},
		{aPod("default/t-0", "default/gang/t", 3), {Gang: &engine.Gang{Key: "default/gang/t", Version: 4}}},
		{aNode("n2", 5)},
		{aPod("default/two", "", 6)},
		{{Gone: &engine.Ref{Kind: engine.KindPod, Key: "default/two", Version: 7}}},
	} {
		s.Apply(changes...)
		plan := s.Plan(p.start.Add(time.Duration(i) * time.Second))
		s.Apply(plan.Changes...)
		w.Cycle(plan.Now, changes, plan)
		p.plans = append(p.plans, plan)
	}
	w.Close()
	return p
}

func aNode(name string, version uint64) engine.Change {
	return engine.Change{Node: &engine.Node{Name: name, Version: version, Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}, {Resource: engine.Pods, Value: 9}}}}
}

func aPod(key, gang string, version uint64) engine.Change {
	p := engine.Pod{Key: key, UID: key, Gang: gang, Version: version}
	p.Requests = engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}
	return engine.Change{Pod: &p}
}

// at is the time of cycle i, as an argument.
func (p *past) at(i int) string {
	return p.start.Add(time.Duration(i) * time.Second).Format(time.RFC3339)
}

// ok runs the command, which must succeed and say nothing on the side, and returns what it printed.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := run(t, args...)
	if code != exitOK || stderr != "" {
		t.Fatalf("berth %s: code %d, stderr %q", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

func TestReplayGivesAPlanToTheByte(t *testing.T) {
	p := newPast(t, "v1")
	for i, plan := range p.plans {
		want, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want)+"\n", ok(t, "replay", "--at", p.at(i), "-o", "json")); diff != "" {
			t.Errorf("cycle %d:\n%s", i, diff)
		}
		got := ok(t, "replay", p.dir, "--at", p.at(i))
		first, rest, _ := strings.Cut(got, "\n")
		if rest != engine.Describe(plan) || !strings.Contains(first, fmt.Sprintf("(cycle %d of decisions-000001-", i+1)) || !strings.Contains(first, "recorded by berth v1)") {
			t.Errorf("cycle %d: got %q", i, got)
		}
	}
}

func TestReplayTellsWhatHappened(t *testing.T) {
	p := newPast(t, "v1")
	say := func(i int, what string) string {
		return stamp(p.start.Add(time.Duration(i)*time.Second)) + "  " + what + "\n"
	}
	first := say(0, "starts  default/one (begin): 1 pod on 1 node")
	gang := say(1, "waits   default/gang/t (impossible, cluster-full): 1 pod of 1 nvidia.com/gpu does not fit: 1 node matches, 0 of 1 nvidia.com/gpu are free on them") +
		say(2, "starts  default/gang/t (begin): 1 pod on 1 node")
	last := say(3, "waits   default/two (impossible, cluster-full): 1 pod of 1 nvidia.com/gpu does not fit: 2 nodes match, 0 of 2 nvidia.com/gpu are free on them") +
		say(4, "leaves  default/two")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--from", "1h"}, first + gang + last},
		{[]string{"--from", p.at(0), "--to", p.at(2)}, first + gang},
		{[]string{"--to", p.at(0)}, first},
		{[]string{"--from", "1h", "--workload", "default/t"}, gang},
		{[]string{"--from", "1h", "--workload", "default/gang/t"}, gang},
		{[]string{"--from", "1m"}, ""},
	} {
		got := ok(t, append([]string{"replay"}, c.args...)...)
		if diff := cmp.Diff(sentenceless(c.want), sentenceless(got)); diff != "" {
			t.Errorf("%q:\n%s", c.args, diff)
		}
	}
	var h happening
	line, _, _ := strings.Cut(ok(t, "replay", "--from", "1h", "-o", "json"), "\n")
	if err := json.Unmarshal([]byte(line), &h); err != nil {
		t.Fatal(err)
	}
	want := happening{Now: p.start, What: "starts", Workload: "default/one", Kind: engine.Begin, Placements: p.plans[0].Starts[0].Placements}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Error(diff)
	}
}

// sentenceless leaves out the wording of why something waits, which is engine/why's.
func sentenceless(lines string) (out []string) {
	for l := range strings.Lines(lines) {
		if head, _, ok := strings.Cut(l, "): "); ok && strings.Contains(l, "  waits ") {
			l = head
		}
		out = append(out, l)
	}
	return out
}

func TestReplayOfOneWorkload(t *testing.T) {
	p := newPast(t, "v1")
	for _, c := range []struct {
		args, want string
	}{
		{"--at " + p.at(1) + " --workload default/t", "default/gang/t: impossible, cluster-full; 0 ahead\n"},
		{"--at " + p.at(1) + " --workload default/t-0", "default/gang/t: impossible, cluster-full; 0 ahead\n"}, // its pod
		{"--at " + p.at(2) + " --workload default/t", "starts default/gang/t (begin)\n  n2: default/t-0\n"},
		{"--at " + p.at(3) + " --workload default/one", "default/one: placed\n"},
		{"--at " + p.at(3) + " --workload default/two -o json", `{"workload":"default/two"`},
	} {
		if got := ok(t, append([]string{"replay"}, strings.Fields(c.args)...)...); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q in it", c.args, got, c.want)
		}
	}
}

func TestReplayListsWhatIsKept(t *testing.T) {
	p := newPast(t, "v1")
	got := strings.Split(ok(t, "replay"), "\n")
	fields := strings.Fields(got[1])
	want := []string{stamp(p.start), stamp(p.start.Add(4 * time.Second)), "5", "2", "0"}
	if diff := cmp.Diff(want, fields[:5]); diff != "" || len(got) != 3 {
		t.Errorf("%q:\n%s", got, diff)
	}
	var list struct{ Segments []segmentStatus }
	if err := json.Unmarshal([]byte(ok(t, "replay", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	s := list.Segments[0]
	if s.Bytes == 0 || !strings.HasPrefix(s.File, "decisions-000001-") {
		t.Errorf("%+v", s)
	}
	s.File, s.Bytes = "", 0
	if diff := cmp.Diff(segmentStatus{From: p.start, To: p.start.Add(4 * time.Second), Cycles: 5, Starts: 2, Because: record.Started, Berth: "v1"}, s); diff != "" {
		t.Error(diff)
	}
}

func TestReplaySaysClearlyWhatItCannotDo(t *testing.T) {
	p := newPast(t, "v1")
	empty := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"-o yaml", exitUsage, `--output "yaml": use text or json`},
		{"--at noon", exitUsage, `--at: "noon" is no time: write 15:04`},
		{"--at 2999-01-01T00:00:00Z", exitUsage, "--at: 2999-01-01T00:00:00Z is still to come"},
		{"--at 5m --from 5m", exitUsage, "give either --at, or --from and --to"},
		{"--from 5m --to 10m", exitUsage, "--from 5m is after --to 10m"},
		{"--from 5m --to -1m", exitUsage, `--to: "-1m" is no time`},
		{"--workload a/b", exitUsage, "--workload needs a time"},
		{"--name berth " + p.dir, exitUsage, "give either a folder or --name"},
		{"a b", exitUsage, "accepts at most 1 arg"},
		{"--name nobody", exitUnknown, `there is no cluster "nobody"`},
		{empty, exitUnknown, empty + ": no decisions are recorded there"},
		{filepath.Join(empty, "none"), exitUnknown, "no decisions are recorded there"},
		{"--at 24h", exitUnknown, "nothing that old is kept: the log begins at"},
		{"--from 25h --to 24h", exitUnknown, "nothing that old is kept: the log begins at"},
		{"--at 1m --workload default/nobody", exitFailed, `there was no workload "default/nobody" at`},
	} {
		code, stdout, stderr := run(t, append([]string{"replay"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
			t.Errorf("berth replay %s: code %d, stdout %q, stderr %q; want code %d and one line with %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}

// A file that was cut off gives what is whole; one that is rubbish is named and left out.
func TestReplayOfDamagedFiles(t *testing.T) {
	p := newPast(t, "v1")
	files, err := filepath.Glob(filepath.Join(p.dir, "*.zst"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	rubbish := filepath.Join(p.dir, "decisions-000002-20261115T120000Z.zst")
	for path, content := range map[string][]byte{files[0]: data[:len(data)-2], rubbish: []byte("rubbish, and more of it")} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := run(t, "replay", "--at", p.at(4), "-o", "json")
	want, _ := json.Marshal(p.plans[4])
	if code != exitOK || stdout != string(want)+"\n" || !strings.Contains(stderr, "left out: "+rubbish+": ") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if _, stdout, _ := run(t, "replay"); !strings.Contains(stdout, filepath.Base(rubbish)+", damaged") {
		t.Errorf("list: %s", stdout)
	}
}

// A binary that decides differently from the one that recorded must not pass its own decisions for the past.
func TestReplayNoticesAnotherBinary(t *testing.T) {
	p := newPast(t, "v1")
	other := t.TempDir()
	w := record.Start(record.Options{Dir: other, Berth: "v0.9"}, engine.Config{})
	w.Cycle(p.plans[1].Now, []engine.Change{aNode("n1", 1), aPod("default/one", "", 2)}, engine.Plan{})
	w.Close()
	code, stdout, stderr := run(t, "replay", other, "--at", "1m")
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "cycle 1, at "+p.at(1)) || !strings.Contains(stderr, "decides differently from the one that recorded, berth v0.9") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestMoments(t *testing.T) {
	now := time.Date(2026, 11, 15, 9, 30, 0, 0, time.FixedZone("CET", 3600))
	for _, c := range []struct{ in, want string }{
		{"2026-11-15T07:00:00Z", "2026-11-15T07:00:00Z"},
		{"2026-11-15T08:00:00.5+01:00", "2026-11-15T07:00:00.5Z"},
		{"08:15", "2026-11-15T07:15:00Z"},
		{"8:15:30", "2026-11-15T07:15:30Z"},
		{"09:30", "2026-11-15T08:30:00Z"},
		{"09:31", "2026-11-14T08:31:00Z"}, // yesterday: today's is still to come
		{"90s", "2026-11-15T08:28:30Z"},
		{"26h", "2026-11-14T06:30:00Z"},
		{"2026-11-15T10:00:00+01:00", ""},
		{"-5m", ""}, {"25:00", ""}, {"", ""}, {"yesterday", ""}, {"12", ""},
	} {
		got, err := moment(c.in, now)
		if c.want == "" {
			if err == nil {
				t.Errorf("%q: got %s, want an error", c.in, got)
			}
			continue
		}
		if err != nil || got.UTC().Format(time.RFC3339Nano) != c.want {
			t.Errorf("%q: got %s, %v, want %s", c.in, got.UTC(), err, c.want)
		}
	}
}
