package rule

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Said is what the API server made of an object in dry run, beside taking it.
type Said struct {
	Altered []Altered
	Warned  []string // warnings in its own words
	// Unheeded is what the object, or its pods, ask for and Berth does not do.
	Unheeded []string
	// Unplanned is why nothing was planned of an object that may have pods; "": it was, or it has none.
	Unplanned string
}

// Altered is a field that is not kept as it was written: a webhook or a policy changes it, or a feature gate that is off drops it.
type Altered struct {
	Path     string // JSON pointer in the object
	Was, Now string // Now is "" where the field is dropped
	Dropped  bool
}

var unkept = Rule{
	Code: "B115", Name: "field-not-kept",
	Title: "A field that the cluster does not keep",
	Why:   "The API server takes the object without an error and leaves a field out, because the feature gate that it belongs to is off or a webhook removes it, or a webhook or a policy changes it. The work then runs on other terms than the manifest says.",
	said:  findUnkept,
}

func findUnkept(s *Said) (out []Finding) {
	for _, a := range s.Altered {
		f := Finding{Path: a.Path, Message: fmt.Sprintf("%s is dropped by the cluster: its feature is off there, or a webhook removes it", a.Path), Advice: "Remove the field, or have the feature turned on."}
		if !a.Dropped {
			f.Message = fmt.Sprintf("%s is changed by the cluster from %s to %s", a.Path, wording.Shortened(a.Was, 80), wording.Shortened(a.Now, 80))
			f.Advice = "Write what the cluster has anyway, or ask whoever has its webhooks and policies."
		}
		out = append(out, f)
	}
	return out
}

var warned = Rule{
	Code: "B116", Name: "warning-of-the-api-server",
	Title: "The API server takes it with a warning",
	Why:   "Policies and validation that do not refuse yet say so in a warning, which controllers and CI never show.",
	said:  findWarned,
}

func findWarned(s *Said) (out []Finding) {
	for _, text := range s.Warned {
		out = append(out, Finding{Message: "the API server warns: " + wording.Shortened(text, 400)})
	}
	return out
}

var unheeded = Rule{
	Code: "B119", Name: "asks-in-vain",
	Title: "Asks for something that is not done",
	Why:   "A field of another scheduler's object, or a key on pods or on what makes them, that Berth does not heed, or not in this value. The work is planned, and scheduled, as if it were not there.",
	said:  findUnheeded,
}

func findUnheeded(s *Said) (out []Finding) {
	for _, text := range s.Unheeded {
		out = append(out, Finding{Message: "without effect: " + wording.Shortened(text, 400)})
	}
	return out
}

var unplanned = Rule{
	Code: "B120", Name: "not-planned",
	Title: "Nothing was planned of it",
	Why:   "Only the controller of a kind knows which pods it makes. Of a kind that is not known, and in which no pod template is found, no pod is planned: what else was found holds without them.",
	said:  findUnplanned,
}

func findUnplanned(s *Said) []Finding {
	if s.Unplanned == "" {
		return nil
	}
	return []Finding{{Message: s.Unplanned}}
}

// Server is what was said of an object, by the API server or by its scheduler, as findings.
func Server(s Said) []Finding {
	var out []Finding
	for _, r := range Rules() {
		if r.said != nil {
			out = append(out, r.sign(r.said(&s))...)
		}
	}
	return sorted(out)
}
