package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Prefix is what every annotation that steers a simulated program starts with.
const Prefix = "sim.berth.dev/"

// Spec is what a simulated program does. All durations are simulated time.
type Spec struct {
	// Run is the work until the program exits 0; 0 means until it is stopped.
	Run time.Duration
	// FailAfter is the work after which it exits with ExitCode instead; 0 means never.
	FailAfter time.Duration
	ExitCode  int
	// GPUUtil is the load in percent on each of its GPUs while it works.
	GPUUtil int
	// GPUMemory is held on each of its GPUs once it works, in bytes; 0 means unsaid.
	GPUMemory int64
	// Memory is its host memory in bytes; 0 means unsaid. The container's limit is enforced
	// by the kubelet, not here.
	Memory int64
	// Checkpoint is the work between two checkpoints; 0 means none are made.
	Checkpoint time.Duration
	// World is how many ranks must run at the same time; 0 means the program works alone.
	World int
	// Step is how long one step takes, and Timeout how long a collective waits for a rank.
	Step, Timeout time.Duration
	// Group and Rank override what the pod's owner says; "" and -1 mean unsaid.
	Group string
	Rank  int
	// Pull is how long its image takes to pull, -1 means unsaid. CUDA is the version the
	// image needs ("12.4"). Both are the kubelet's to act on.
	Pull time.Duration
	CUDA string
	// Warmup is how long it loads and compiles before its first step; its GPUs hold their memory and do nothing.
	Warmup time.Duration
	// HangAfter is the work after which it answers nobody any more; 0 means never.
	HangAfter time.Duration
	// DivergeAfter is the work after which its loss is not a number; 0 means never.
	DivergeAfter time.Duration
	// GPULeak and MemoryLeak are bytes by which its memory grows in a minute of work.
	GPULeak, MemoryLeak int64
	// Tokens are those of one step of the whole world, and Parameters those of its model. With Tokens it logs what trainings
	// log: loss, tokens a second, and with Parameters the utilization of its GPUs' peak (MFU).
	Tokens, Parameters int64
	// DataWait is the share of each step in percent in which the GPUs wait for data.
	DataWait int
	// Requests makes it a server: so many arrive in a second on average; 0 means that it is none. Each takes RequestTime, and
	// RequestMemory bytes of the KV cache on each GPU (0: no cache is kept account of). At most Batch are worked on at a time.
	// Tokens are then those of one answer.
	Requests      float64
	RequestTime   time.Duration
	RequestMemory int64
	Batch         int

	// GPURoom and MemoryRoom are what it may hold of each GPU and of its host, in bytes, and PeakFLOPS what its GPUs together
	// do in a second at best; 0 means unknown. The kubelet tells; no annotation does.
	GPURoom, MemoryRoom int64
	PeakFLOPS           float64

	// IgnoreTerm makes the program carry on after SIGTERM until it is killed.
	IgnoreTerm bool
}

// Defaults of a Spec.
const (
	defaultExitCode = 1
	defaultGPUUtil  = 90
	defaultStep     = time.Second
	defaultTimeout  = 10 * time.Minute

	defaultBatch       = 256
	defaultRequestTime = 5 * time.Second
)

// setting is one annotation: how its text is read, and what is allowed, for the error.
type setting struct {
	allowed string
	set     func(s *Spec, text string) error
}

// settings by the part of the key behind Prefix.
var settings = map[string]setting{
	"run":            {aDuration, duration(1, func(s *Spec) *time.Duration { return &s.Run })},
	"fail-after":     {aDuration, duration(1, func(s *Spec) *time.Duration { return &s.FailAfter })},
	"exit-code":      {"a whole number from 1 to 255", number(1, 255, func(s *Spec) *int { return &s.ExitCode })},
	"gpu-util":       {"a percentage from 0 to 100, without a sign", number(0, 100, func(s *Spec) *int { return &s.GPUUtil })},
	"gpu-memory":     {aQuantity, quantity(func(s *Spec) *int64 { return &s.GPUMemory })},
	"memory":         {aQuantity, quantity(func(s *Spec) *int64 { return &s.Memory })},
	"checkpoint":     {aDuration, duration(1, func(s *Spec) *time.Duration { return &s.Checkpoint })},
	"world":          {"a whole number of ranks from 1 to 100000", number(1, maxWorld, func(s *Spec) *int { return &s.World })},
	"step":           {aStep, duration(time.Millisecond, func(s *Spec) *time.Duration { return &s.Step })},
	"timeout":        {aDuration, duration(1, func(s *Spec) *time.Duration { return &s.Timeout })},
	"group":          {"a name of 1 to 253 printable characters without spaces", group},
	"rank":           {"a whole number from 0", number(0, maxWorld-1, func(s *Spec) *int { return &s.Rank })},
	"pull":           {"a duration such as 0s, 45s or 5m", duration(0, func(s *Spec) *time.Duration { return &s.Pull })},
	"cuda":           {"a CUDA version such as 12.4", cuda},
	"warmup":         {aDuration, duration(1, func(s *Spec) *time.Duration { return &s.Warmup })},
	"hang-after":     {aDuration, duration(1, func(s *Spec) *time.Duration { return &s.HangAfter })},
	"diverge-after":  {aDuration, duration(1, func(s *Spec) *time.Duration { return &s.DivergeAfter })},
	"gpu-leak":       {aQuantity, quantity(func(s *Spec) *int64 { return &s.GPULeak })},
	"memory-leak":    {aQuantity, quantity(func(s *Spec) *int64 { return &s.MemoryLeak })},
	"tokens":         {aCount, quantity(func(s *Spec) *int64 { return &s.Tokens })},
	"parameters":     {aCount, quantity(func(s *Spec) *int64 { return &s.Parameters })},
	"data-wait":      {"a percentage from 0 to 99, without a sign", number(0, 99, func(s *Spec) *int { return &s.DataWait })},
	"requests":       {aRate, rate(func(s *Spec) *float64 { return &s.Requests })},
	"request-time":   {aStep, duration(time.Millisecond, func(s *Spec) *time.Duration { return &s.RequestTime })},
	"request-memory": {aQuantity, quantity(func(s *Spec) *int64 { return &s.RequestMemory })},
	"batch":          {"a whole number from 1 to 100000", number(1, 100_000, func(s *Spec) *int { return &s.Batch })},
	"ignore-sigterm": {"true or false", flag(func(s *Spec) *bool { return &s.IgnoreTerm })},
}

// Annotations are all known keys with their prefix, sorted.
func Annotations() []string {
	keys := slices.Sorted(maps.Keys(settings))
	for i, key := range keys {
		keys[i] = Prefix + key
	}
	return keys
}

// Steers says whether the annotation tells what a program does, other than how its image is.
func Steers(key string) bool {
	name, ours := strings.CutPrefix(key, Prefix)
	_, known := settings[name]
	return ours && known && name != "pull" && name != "cuda"
}

// ParseSpec reads the annotations of a pod; those without Prefix are ignored. The error names
// the annotation and says what is allowed; of several it is the first by name.
func ParseSpec(annotations map[string]string) (Spec, error) {
	s := Spec{
		ExitCode: defaultExitCode, GPUUtil: defaultGPUUtil,
		Step: defaultStep, Timeout: defaultTimeout, Rank: -1, Pull: -1,
		Batch: defaultBatch, RequestTime: defaultRequestTime,
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, ours := strings.CutPrefix(key, Prefix)
		if !ours {
			continue
		}
		set, known := settings[name]
		if !known {
			return Spec{}, fmt.Errorf("annotation %q is not known; known are %s", key, strings.Join(Annotations(), ", "))
		}
		if err := set.set(&s, annotations[key]); err != nil {
			return Spec{}, fmt.Errorf("annotation %s: %q is not %s", key, annotations[key], set.allowed)
		}
	}
	return s, s.agree(annotations)
}

// agree refuses values that are fine alone and senseless together.
func (s Spec) agree(annotations map[string]string) error {
	if _, said := annotations[Prefix+"exit-code"]; said && s.FailAfter == 0 {
		return fmt.Errorf("annotation %sexit-code needs %sfail-after: a program that finishes exits 0", Prefix, Prefix)
	}
	for key, set := range map[string]bool{"parameters": s.Parameters > 0, "diverge-after": s.DivergeAfter > 0} {
		if set && s.Tokens == 0 {
			return fmt.Errorf("annotation %s%s needs %stokens: without it there is no line that would show it", Prefix, key, Prefix)
		}
	}
	for _, key := range []string{"batch", "request-memory", "request-time"} {
		if _, said := annotations[Prefix+key]; said && s.Requests == 0 {
			return fmt.Errorf("annotation %s%s needs %srequests: only a server has them", Prefix, key, Prefix)
		}
	}
	for _, key := range []string{"checkpoint", "data-wait", "diverge-after", "parameters", "run", "step"} {
		if _, said := annotations[Prefix+key]; said && s.Requests > 0 {
			return fmt.Errorf("annotations %s%s and %srequests: a program trains or serves, not both", Prefix, key, Prefix)
		}
	}
	if s.World > 0 && s.Rank >= s.World {
		return fmt.Errorf("annotation %srank: %d is not below %sworld, which is %d", Prefix, s.Rank, Prefix, s.World)
	}
	return nil
}

// steps is the whole work in steps, rounded up; 0 means endless.
func (s Spec) steps() int64 {
	return int64((s.Run + s.Step - 1) / s.Step)
}

// complete fills in what a Spec made by hand may leave at zero and a program cannot do without.
func (s Spec) complete() Spec {
	if s.Step <= 0 {
		s.Step = defaultStep
	}
	if s.Timeout <= 0 {
		s.Timeout = defaultTimeout
	}
	if s.Batch <= 0 {
		s.Batch = defaultBatch
	}
	if s.RequestTime <= 0 {
		s.RequestTime = defaultRequestTime
	}
	if s.FailAfter > 0 && s.ExitCode == 0 {
		s.ExitCode = defaultExitCode
	}
	return s
}
