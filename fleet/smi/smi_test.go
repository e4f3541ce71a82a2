package smi

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/fleet/gpu"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// TestDocumentation renders the example of the user's page.
func TestDocumentation(t *testing.T) {
	const page, fence = "../../docs/nvidia-smi.md", "```console\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), fence)
	example, after, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatalf("%s has no example", page)
	}
	rendered := strings.ReplaceAll(replay(example, hosts()["pod"]), "[exit 0]\n", "")
	rendered = strings.NewReplacer("\x1b[4m", "", "\x1b[0m", "").Replace(rendered)
	golden(t, page, before+fence+rendered+"```\n"+after)
}

// TestGolden runs the commands in testdata/HOST.txt against the host of that name and compares
// all they print. A file is a list of commands, each with its output and exit code.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			host, ok := hosts()[name]
			if !ok {
				t.Fatalf("no host %q", name)
			}
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, replay(string(script), host))
		})
	}
}

// golden compares got with the file, or rewrites it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

const prompt = "$ nvidia-smi"

// replay runs every command of a golden file again. Lines before the first command are kept.
func replay(script string, host Host) string {
	preamble, _, _ := strings.Cut(script, prompt)
	out := preamble
	for _, line := range strings.SplitAfter(script, "\n") {
		args, ok := strings.CutPrefix(line, prompt)
		if !ok {
			continue
		}
		printed, code := smi(host, strings.Fields(args)...)
		out += fmt.Sprintf("%s%s[exit %d]\n", line, printed, code)
	}
	return out
}

func smi(host Host, args ...string) (string, int) {
	var stdout, stderr bytes.Buffer
	code := Main(args, host, &stdout, &stderr)
	return stdout.String() + stderr.String(), code
}

// hosts are the machines of the golden files.
func hosts() map[string]Host {
	h200 := Host{
		Driver: gpu.Driver{Version: "580.159.04", CUDA: "13.0"},
		Now:    time.Date(2026, 11, 15, 2, 38, 40, 911e6, time.UTC),
		All:    true, NUMACPUs: 16,
		GPUs: []gpu.Reading{{
			Device: gpu.Device{
				UUID: "GPU-8e0d22e5-7cfc-30e4-38c5-9e546ce1f1e6", BusID: "00000000:00:06.0", Serial: "1653924055677",
				Model: model("h200"), MemoryMiB: 143771, NVLink: -1,
			},
			MemUsedMiB: 5647, PowerWatts: 119, TempC: 34,
			Processes: []gpu.Process{{PID: 399, Name: "python3", UsedMiB: 5638}},
		}},
	}
	idle := h200
	idle.Now = time.Date(2026, 11, 15, 2, 25, 38, 0, time.UTC)
	idle.GPUs = []gpu.Reading{{Device: h200.GPUs[0].Device, PowerWatts: 126, TempC: 39}}

	node := Host{Driver: gpu.Driver{Version: "580.95.05", CUDA: "13.0"}, Now: h200.Now, All: true, GPUs: h100x8()}
	pod := node
	pod.All, pod.GPUs = false, node.GPUs[5:7]
	noDriver, noDevices := node, node
	noDriver.Driver = gpu.Driver{}
	noDevices.GPUs = nil
	return map[string]Host{
		"h200-mig": cuttable(idle), "mig": migHost(), "mig-pod": migPod(),
		"h200": h200, "h200-idle": idle, "h100x8": node, "pod": pod, "mixed": mixed(node),
		"no-driver": noDriver, "no-devices": noDevices,
	}
}

// cuttable is the host with MIG commands that change its GPUs.
func cuttable(h Host) Host {
	h.GPUs = slices.Clone(h.GPUs)
	h.Cut = func(uuid string, next gpu.Partition) error {
		for i := range h.GPUs {
			if h.GPUs[i].UUID == uuid {
				h.GPUs[i].MIGEnabled, h.GPUs[i].Parts = next.Enabled, nil
				for _, in := range next.Instances {
					h.GPUs[i].Parts = append(h.GPUs[i].Parts, gpu.Part{Instance: in})
				}
			}
		}
		return nil
	}
	return h
}

// migHost has an A100 that is cut, one in MIG mode without instances, and a T4. A pod holds an instance of the first.
func migHost() Host {
	a100 := model("a100")
	devices := gpu.Devices("node-0", []gpu.Group{{Model: a100, Count: 2}, {Model: model("t4"), Count: 1}})
	list, err := a100.Layout(map[string]int{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1})
	if err != nil {
		panic(err)
	}
	h := Host{Driver: gpu.Driver{Version: "580.95.05", CUDA: "13.0"}, Now: time.Date(2026, 11, 15, 2, 38, 40, 0, time.UTC), All: true}
	for _, d := range devices {
		h.GPUs = append(h.GPUs, gpu.Reading{Device: d, PowerWatts: d.Model.IdleWatts, TempC: 32, MIGEnabled: d.Model.MIG})
	}
	for _, in := range list {
		h.GPUs[0].Parts = append(h.GPUs[0].Parts, gpu.Part{Instance: in})
	}
	h.GPUs[0].Parts[3].UsedMiB, h.GPUs[0].MemUsedMiB = 8012, 8012
	h.GPUs[0].Processes = []gpu.Process{{PID: 1, Name: "python3", UsedMiB: 8012, MIG: &h.GPUs[0].Parts[3].Instance}}
	h.Cut = func(string, gpu.Partition) error { return gpu.ErrInUse }
	return h
}

// migPod is what a container with one of its MIG devices sees.
func migPod() Host {
	h := migHost()
	h.All, h.Cut = false, nil
	h.GPUs = h.GPUs[:1]
	h.GPUs[0].Parts = h.GPUs[0].Parts[3:]
	return h
}

func model(name string) gpu.Model {
	m, ok := gpu.Lookup(name)
	if !ok {
		panic("no model " + name)
	}
	return m
}

// h100x8 is half busy: GPUs 4 to 7 train.
func h100x8() []gpu.Reading {
	var out []gpu.Reading
	for _, d := range gpu.Devices("node-0", []gpu.Group{{Model: model("h100"), Count: 8, NVLink: true}}) {
		r := gpu.Reading{Device: d, PowerWatts: 70, TempC: 30 + d.Index}
		if d.Index >= 4 {
			r.UtilPercent, r.MemUtilPercent, r.MemUsedMiB, r.PowerWatts, r.TempC = 97, 61, 70321, 664, 60+d.Index
			r.Processes = []gpu.Process{{PID: 4000 + d.Index, Name: "/opt/venvs/torch-2.8-cuda-12.8/bin/python3", UsedMiB: 70310}}
		}
		out = append(out, r)
	}
	return out
}

// mixed is a machine with boards of the other kinds: no MIG, no HBM, no ECC, a fan.
func mixed(h Host) Host {
	h.GPUs = nil
	for _, d := range gpu.Devices("node-1", []gpu.Group{
		{Model: model("t4"), Count: 1}, {Model: model("a100"), Count: 2, NVLink: true}, {Model: model("4090"), Count: 1},
	}) {
		h.GPUs = append(h.GPUs, gpu.Reading{Device: d, PowerWatts: d.Model.IdleWatts, TempC: 33})
	}
	return h
}

func TestLoopReadsAgain(t *testing.T) {
	host := hosts()["h200-idle"]
	rounds := 0
	host.Sleep = func(d time.Duration) error {
		if d != 2*time.Second {
			t.Errorf("slept %v, want 2s", d)
		}
		if rounds++; rounds == 3 {
			return errors.New("stopped")
		}
		return nil
	}
	host.Read = func() ([]gpu.Reading, time.Time) {
		g := host.GPUs[0]
		g.UtilPercent = rounds * 10
		return []gpu.Reading{g}, host.Now.Add(time.Duration(rounds) * 2 * time.Second)
	}
	got, code := smi(host, "--query-gpu=timestamp,utilization.gpu", "--format=csv", "-l", "2")
	want := "timestamp, utilization.gpu [%]\n" +
		"2026/11/15 02:25:38.000, 0 %\n" +
		"2026/11/15 02:25:40.000, 10 %\n" +
		"2026/11/15 02:25:42.000, 20 %\n"
	if diff := cmp.Diff(want, got); diff != "" || code != exitInterrupted {
		t.Errorf("exit %d\n%s", code, diff)
	}
}

func TestDmonCounts(t *testing.T) {
	host := hosts()["h200-idle"]
	slept := 0
	host.Sleep = func(time.Duration) error { slept++; return nil }
	got, code := smi(host, "dmon", "-c", "3", "-d", "5", "-s", "p", "-o", "T")
	want := "#Time         gpu    pwr  gtemp  mtemp \n" +
		"#HH:MM:SS     Idx      W      C      C \n" +
		" 02:25:38       0    126     39     40 \n" +
		" 02:25:43       0    126     39     40 \n" +
		" 02:25:48       0    126     39     40 \n"
	if diff := cmp.Diff(want, got); diff != "" || code != exitOK || slept != 2 {
		t.Errorf("exit %d, slept %d times\n%s", code, slept, diff)
	}
}

// A full disk or a closed pipe must not loop for ever.
func TestOutputThatFails(t *testing.T) {
	host := hosts()["h200"]
	host.Sleep = func(time.Duration) error { return nil }
	var stderr bytes.Buffer
	code := Main([]string{"-l", "1"}, host, broken{}, &stderr)
	if want := "nvidia-smi: write output: pipe closed\n"; code == exitOK || stderr.String() != want {
		t.Errorf("exit %d, stderr %q, want %q", code, stderr.String(), want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("pipe closed") }

// Every field can be asked for on every kind of board, under every name.
func TestEveryField(t *testing.T) {
	for name, host := range hosts() {
		if host.Driver.Version == "" || len(host.GPUs) == 0 {
			continue
		}
		for _, f := range gpuFields() {
			for _, as := range []string{f.name, f.alias} {
				if as == "" {
					continue
				}
				out, code := smi(host, "--query-gpu="+as, "--format=csv,noheader,nounits")
				if code != exitOK || strings.Count(out, "\n") != len(host.GPUs) || strings.Contains(out, "\n\n") || strings.HasPrefix(out, "\n") {
					t.Errorf("%s: %s: exit %d: %q", name, as, code, out)
				}
			}
		}
	}
}

func TestFieldNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range gpuFields() {
		for _, name := range []string{f.name, f.alias} {
			if name != "" && seen[name] {
				t.Errorf("%s is two fields", name)
			}
			seen[name] = true
		}
	}
}

func FuzzArguments(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, line := range strings.Split(string(data), "\n") {
			if args, ok := strings.CutPrefix(line, prompt); ok {
				f.Add(strings.TrimSpace(args))
			}
		}
	}
	known := map[int]bool{
		exitOK: true, exitBadArgument: true, exitNotAvailable: true, exitNotFound: true,
		exitNoDriver: true, exitInterrupted: true, exitUsage: true,
		exitInUse: true, exitInsufficient: true, exitPermission: true,
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, host := range hosts() {
			rounds := 0
			host.Sleep = func(d time.Duration) error {
				if d <= 0 {
					t.Errorf("%q sleeps %v", line, d)
				}
				if rounds++; rounds > 2 {
					return errors.New("stopped")
				}
				return nil
			}
			if _, code := smi(host, strings.Fields(line)...); !known[code] {
				t.Errorf("%q: exit %d", line, code)
			}
		}
	})
}

// Whatever is asked of MIG, the GPU stays cut in a way that is possible, and the program ends with a code it has.
func FuzzMIG(f *testing.F) {
	for _, line := range []string{"-cgi 19,9:4 -C", "-lgi", "-dgi -gi 7", "-cci", "-dci -gi 1,2", "-lcip", "-cgi :::,", "-i x -lgip", "-cgi 5:-1", "-cgi 14:99999999999999999999"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		h := cuttable(hosts()["h200-idle"])
		h.GPUs[0].MIGEnabled = true
		for _, args := range []string{"mig -cgi 9,19 -C", "mig " + line, "mig -lgi", "mig -lci", "mig -lcip", "-L", ""} {
			if _, code := smi(h, strings.Fields(args)...); code < 0 || code > 255 {
				t.Errorf("%s: exit code %d", args, code)
			}
		}
		var have []gpu.Instance
		for _, p := range h.GPUs[0].Parts {
			next, _, err := h.GPUs[0].Model.Create(have, p.Profile, p.Start, p.Compute)
			if err != nil {
				t.Fatalf("%q leaves %v: %v", line, h.GPUs[0].Parts, err)
			}
			have = next
		}
	})
}
