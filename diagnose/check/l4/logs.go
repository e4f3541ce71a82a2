package l4

import (
	"regexp"
	"strings"

	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// stall is what a log says of a program that waits for its peers.
type stall struct {
	line    string // that says so
	meeting bool   // it has not met all of them yet; else it met them and lost one
}

var (
	stallMeeting = regexp.MustCompile(`(?i)waiting for ranks: \d+ of \d+ joined|\d+/\d+ clients joined|waiting for (all )?(the )?(other )?(workers|ranks|peers|processes)\b|timed out initializing process group|rendezvous.*timed out|store.* timed out|failed to connect to the (master|head)|waiting for \d+ more (workers?|ranks?|peers?|nodes?)\b|client socket has (timed out|failed to connect)|timed out (after \S+ )?(while )?trying to connect to`)
	stallLost    = regexp.MustCompile(`(?i)still waiting for rank \d+|all ranks are stalled|watchdog caught collective operation timeout|nccl.*(timed out|unhandled system error|remote process exited)|ran for \d+ milliseconds before timing out|heartbeat monitor timed out`)
	progress     = regexp.MustCompile(`(?i)\b(step|iter|iteration|epoch|batch)\b[ =:\[]*\d+|\bloss[ =:]+\d|\d+(\.\d+)?\s*(it/s|s/it|tokens/s)|init complete|resuming from step|" 200\b`)
)

// stalled reads the last lines of a log, and says whether the program waits for peers: the latest sign counts, so that
// one that waited and then went on does not.
func stalled(log string) (stall, bool) {
	lines := strings.Split(log, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		switch {
		case stallLost.MatchString(line):
			return stall{line: line}, true
		case stallMeeting.MatchString(line):
			return stall{line: line, meeting: true}, true
		case progress.MatchString(line):
			return stall{}, false
		}
	}
	return stall{}, false
}

// worked says whether a program has got on at some time, as far back as the log goes.
func worked(log string) bool { return progress.MatchString(log) }

// lostGPUs is the line with which a running program says that its GPUs are gone; "" where it has got on since.
func lostGPUs(log string) string {
	lines := strings.Split(log, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		switch {
		case goneWords.MatchString(line):
			return line
		case progress.MatchString(line):
			return ""
		}
	}
	return ""
}

// outOfGPUMemory finds the line of a log with which a program ran out of GPU memory; "" where none says so.
func outOfGPUMemory(log string) string {
	for line := range strings.SplitSeq(log, "\n") {
		if wording.Mentions(line, "cuda out of memory", "cuda error: out of memory", "cublas_status_alloc_failed", "outofmemoryerror: cuda", "cudaerrormemoryallocation", "hip out of memory") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

var (
	hardwareWords = regexp.MustCompile(`(?i)uncorrectable ecc|ecc error|fallen off the bus|gpu is lost|\bxid\b|nvlink error|cudaerroreccuncorrectable|cudaerrornvlinkuncorrectable|nvml.*unknown error|failed to initialize nvml|couldn't communicate with the nvidia driver|error 802|system not yet initialized|driver/library version mismatch`)
	goneWords     = regexp.MustCompile(`(?i)failed to initialize nvml|nvml.*unknown error|fallen off the bus|gpu is lost|no cuda-capable device|driver/library version mismatch|uncorrectable ecc error (was )?encountered|couldn't communicate with the nvidia driver|cuda_error_(no_device|system_not_ready|ecc_uncorrectable)|cudaerror(nodevice|systemnotready|eccuncorrectable)|hsa_status_error_no_devices|gpu device[^.]* (not found|disappeared)`)
	oldDriver     = regexp.MustCompile(`(?i)nvidia driver on your system is too old|cuda driver version is insufficient for cuda runtime version|cudaerrorinsufficientdriver|unsupported toolchain|forward compatibility was attempted on non supported hw`)
)

// lineWith is the last line of a log that has the words; "" for none.
func lineWith(log string, words *regexp.Regexp) string {
	lines := strings.Split(log, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if words.MatchString(lines[i]) {
			return strings.TrimSpace(lines[i])
		}
	}
	return ""
}
