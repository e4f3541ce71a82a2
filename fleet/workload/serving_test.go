package workload

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A server loads its weights, then works on as many requests as arrive while one takes its time.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		spec := Spec{Requests: 2.5, RequestTime: 8 * time.Second, Batch: 40, Tokens: 200, Warmup: time.Minute, GPUUtil: 90,
			GPUMemory: 16 << 30, RequestMemory: 1 << 30, GPURoom: 80 << 30}
		p := start(r, rank(0), spec)
		wantUse(t, r, 0, 56<<30, "team/train-0") // weights and the whole cache, from the start
		if got, ok := r.Serving("team/train-0"); ok {
			t.Errorf("it answers while it loads: %+v", got)
		}
		time.Sleep(61 * time.Second)
		wantUse(t, r, 45, 56<<30, "team/train-0")
		time.Sleep(11 * time.Second)
		got, ok := r.Serving("team/train-0")
		want := Serving{Running: 20, Cache: 0.5, Rate: 2.5, Answered: 30, Tokens: 6000}
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("serving %v (-want +got):\n%s", ok, diff)
		}
		p.cancel(sigterm)
		wantExits(t, 143, p)
		wantLog(t, p,
			"0s serving up to 40 requests at a time, 8s each",
			"0s warming up: the first answer comes after 1m0s",
			"70s Avg generation throughput: 500.0 tokens/s, Running: 20 reqs, Waiting: 0 reqs, GPU KV cache usage: 50.0%",
			"72s stopped by signal 15 after 30 answers",
		)
		wantForgotten(t, r)
	})
}

// More requests than it can work on wait, until those who sent them give up.
func TestServerOverloaded(t *testing.T) {
	spec := Spec{Requests: 10, RequestTime: 4 * time.Second, Batch: 256, GPUUtil: 90, GPUMemory: 60 << 30, RequestMemory: 1 << 30, GPURoom: 80 << 30}
	for after, waiting := range map[time.Duration]int{0: 0, 10 * time.Second: 50, time.Hour: 300} {
		want := Serving{Running: 20, Waiting: waiting, Cache: 1, Rate: 5, Answered: int64(5 * after.Seconds())}
		if diff := cmp.Diff(want, spec.serving(after)); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", after, diff)
		}
	}
	if got := spec.busy(); got != 90 {
		t.Error("busy", got)
	}
}

// A model that leaves no memory for a single request does not start, in vLLM's words.
func TestServerWithoutRoomForItsCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(New(Options{}), rank(0), Spec{Requests: 1, Batch: 8, RequestTime: time.Second, GPUMemory: 79 << 30, RequestMemory: 2 << 30, GPURoom: 80 << 30})
		wantExits(t, 1, p)
		wantLog(t, p, "0s ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.")
	})
}

// A training that waits for data computes less, and says so.
func TestDataWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		p := start(r, rank(0), Spec{Run: 20 * time.Second, GPUUtil: 90, DataWait: 60})
		wantUse(t, r, 36, 0, "team/train-0")
		wantExits(t, 0, p)
		wantLog(t, p, "0s running to step 20, 1s per step, no checkpoints", "10s step 10/20 (50.0%) | data 0.60s of 1.00s", "20s finished at step 20")
	})
}

func TestServersThatMakeNoSense(t *testing.T) {
	for _, bad := range []string{
		"requests=0", "requests=-1", "requests=NaN", "requests=Inf", "requests=1e9", "requests=many", "batch=4", "request-time=1s", "request-memory=1Gi",
		"requests=1 batch=0", "requests=1 request-time=0s", "data-wait=100", "data-wait=-1", "requests=1 data-wait=10", "requests=1 run=1h", "requests=1 checkpoint=1m",
	} {
		annotations := map[string]string{}
		for pair := range strings.FieldsSeq(bad) {
			key, value, _ := strings.Cut(pair, "=")
			annotations[Prefix+key] = value
		}
		if got, err := ParseSpec(annotations); err == nil {
			t.Errorf("%s is read as %+v", bad, got)
		}
	}
}

// Whatever is asked of a server: it works on no more than arrives nor than it holds, and nothing is lost of what arrives
// but what gave up.
func TestServersKeepLittlesLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string, low, high int) string { return fmt.Sprint(rapid.IntRange(low, high).Draw(t, name)) }
		spec, err := ParseSpec(map[string]string{
			Prefix + "requests": text("requests", 1, 1000), Prefix + "batch": text("batch", 1, 512), Prefix + "request-time": text("time", 1, 60) + "s",
			Prefix + "request-memory": text("memory", 1, 4096) + "Mi", Prefix + "gpu-memory": text("weights", 1, 40) + "Gi",
		})
		if err != nil {
			t.Fatal(err)
		}
		spec.GPURoom = 80 << 30
		worked := time.Duration(rapid.IntRange(0, 100_000).Draw(t, "seconds")) * time.Second
		s := spec.serving(worked)
		if s.Running > spec.slots() || s.Cache < 0 || s.Cache > 1 || spec.busy() > spec.GPUUtil || spec.busy() < 1 || spec.GPUMemory+spec.Cache() > spec.GPURoom {
			t.Errorf("%+v does %+v at %d%% with a cache of %d", spec, s, spec.busy(), spec.Cache())
		}
		if s.Rate > spec.Requests+1e-9 || (s.Waiting > 0) != (worked > 0 && int((spec.Requests-s.Rate)*min(worked, patience).Seconds()) > 0) {
			t.Errorf("%+v does %+v", spec, s)
		}
		if math.Abs(s.Rate*spec.RequestTime.Seconds()-float64(s.Running)) > 0.5+1e-6 {
			t.Errorf("%d run where %f are answered a second in %v each", s.Running, s.Rate, spec.RequestTime)
		}
	})
}
