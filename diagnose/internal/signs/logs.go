package signs

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// stuck is how a program's last line says that it does not get on. A line about what went well, or about an error that is
// counted or was got over, does not match.
var stuck = regexp.MustCompile(`(?i)\btimed out\b|\btimeout\b|\bstill waiting\b|\bwaiting (for|on)\b|\btraceback\b|\bfatal\b|\bpanic:|\bdeadlock|\bconnection refused\b|\bunreachable\b|\bfailed to initiali[sz]e\b|\bunknown error\b|fallen off the bus|no cuda-capable device|(^|\s)[a-z.]*(error|exception):`)

// logs are containers that run and whose last line says that they do not get on.
func logs(c *check.Case) []Sign {
	if c.State != facts.Running || !c.Exists || c.WasEdited(c.Pod) {
		return nil
	}
	for _, k := range life.ContainersOf(c.Pod) {
		lines := strings.Split(strings.TrimSpace(life.Tail(c.Facts, c.Pod, k.Name)), "\n")
		last := strings.TrimSpace(lines[len(lines)-1])
		run := k.Status.State.Running
		if last == "" || !stuck.MatchString(last) || run == nil || k.Init {
			continue
		}
		return []Sign{{
			Evidence: facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: wording.Shortened(last, 300)},
			What:     fmt.Sprintf("the last line of the log of %s of pod %s is %q", k.Noun(), c.Pod.Name, wording.Shortened(last, 140)),
			Layer:    check.L4, Owner: check.ML, Stage: check.Run, Young: c.Now.Sub(run.StartedAt.Time) < life.Patience,
		}}
	}
	return nil
}
