package workload

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// A server (sim.berth.dev/requests) works on as many requests at a time as its batch and its KV cache hold. What it does
// follows from how many arrive and how long one takes: by Little's law, rate times time of them are in work. What does not
// fit waits, and whoever has waited for patience gives up.

// patience is how long a request waits before its sender gives up.
const patience = time.Minute

// Serving is what a server does at some moment.
type Serving struct {
	Running, Waiting int     // requests
	Cache            float64 // share of its KV cache in use, 0 to 1
	Rate             float64 // answers a second
	Answered         int64   // since it could answer
	Tokens           int64   // generated since then
}

// WriteMetrics writes the figures under the names that vLLM has for them, which autoscalers read
// (vllm/v1/metrics/loggers.py at 005a810bc40f).
func (s Serving) WriteMetrics(w io.Writer, model string) {
	label := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(model)
	metric := func(name, kind, help string, value any, more ...string) {
		labels := strings.Join(append([]string{`engine="0"`, `model_name="` + label + `"`}, more...), ",")
		fmt.Fprintf(w, "# HELP vllm:%s %s\n# TYPE vllm:%[1]s %[3]s\nvllm:%[1]s{%[4]s} %[5]v\n", name, help, kind, labels, value)
	}
	metric("num_requests_running", "gauge", "Requests that the server works on.", s.Running)
	metric("num_requests_waiting", "gauge", "Requests that wait for room in the batch or the cache.", s.Waiting)
	metric("kv_cache_usage_perc", "gauge", "Share of the KV cache in use; 1 is all of it.", s.Cache)
	metric("generation_tokens_total", "counter", "Tokens that were generated.", s.Tokens)
	metric("request_success_total", "counter", "Requests that were answered.", s.Answered, `finished_reason="stop"`)
}

// slots is how many requests it can work on at a time; 0: not even one, its memory has no room for the cache.
func (s Spec) slots() int {
	if s.RequestMemory == 0 || s.GPURoom == 0 {
		return s.Batch
	}
	return int(min(int64(s.Batch), max(0, s.GPURoom-s.GPUMemory)/s.RequestMemory))
}

// Cache is the memory in bytes that a server takes for its KV cache on each GPU, at its start and beside GPUMemory.
func (s Spec) Cache() int64 { return int64(s.slots()) * s.RequestMemory }

// held is the memory in bytes that it has on each GPU from its start.
func (s Spec) held() int64 { return s.GPUMemory + s.Cache() }

// running is how many requests are in work on average, which may be less than one.
func (s Spec) running() float64 {
	return min(s.Requests*s.RequestTime.Seconds(), float64(s.slots()))
}

// busy is the load in percent on each of its GPUs while it works. A server's follows from how full its batch is, and a training
// computes only while it does not wait for data.
func (s Spec) busy() int {
	switch {
	case s.Requests > 0 && s.slots() > 0:
		return int(math.Ceil(float64(s.GPUUtil) * s.running() / float64(s.slots())))
	default:
		return s.GPUUtil * (100 - s.DataWait) / 100
	}
}

// serving is what a server does after it has answered for so long.
func (s Spec) serving(worked time.Duration) Serving {
	slots, running := s.slots(), s.running()
	rate := running / s.RequestTime.Seconds()
	backlog := max(0, s.Requests-rate) * min(worked, patience).Seconds()
	out := Serving{Running: int(math.Round(running)), Waiting: int(backlog), Rate: rate, Answered: int64(rate * worked.Seconds())}
	if s.RequestMemory > 0 {
		out.Cache = math.Round(1000*running/float64(slots)) / 1000
	}
	out.Tokens = out.Answered * s.Tokens
	return out
}

// line is what a server logs now and then.
func (s Serving) line(tokens int64) string {
	text := fmt.Sprintf("Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: %d reqs", s.Rate*float64(tokens), s.Running, s.Waiting)
	if s.Cache > 0 {
		text += fmt.Sprintf(", GPU KV cache usage: %.1f%%", 100*s.Cache)
	}
	return text
}

// Serving is what the server in a pod does now; false: none runs, or it cannot answer yet.
func (r *Registry) Serving(pod string) (Serving, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, p := range r.pods[pod] {
		if p.spec.Requests > 0 && p.comm != nil && p.comm.working(now) {
			return p.spec.serving(p.comm.worked(now)), true
		}
	}
	return Serving{}, false
}
