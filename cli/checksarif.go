package cli

import (
	"path/filepath"

	"github.com/berth-dev/berth/diagnose/submit"
	"github.com/berth-dev/berth/diagnose/submit/rule"
)

// SARIF 2.1.0, as far as code scanning reads it: https://docs.oasis-open.org/sarif/sarif/v2.1.0/.
type sarif struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool    sarifTool     `json:"tool"`
	Results []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"semanticVersion,omitempty"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Short sarifText `json:"shortDescription"`
	Full  sarifText `json:"fullDescription"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact struct {
		URI string `json:"uri"`
	} `json:"artifactLocation"`
	Region struct {
		StartLine int `json:"startLine"`
	} `json:"region"`
}

// Codes of the verdicts, beside those of rules.
const (
	neverCode = "B001"
	waitsCode = "B002"
)

// sarifOf is the report for code scanning.
func sarifOf(r *submit.Report) sarif {
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "berth check", Version: Version[1:], InformationURI: "https://github.com/berth-dev/berth/blob/main/docs/check.md", Rules: []sarifRule{
		{neverCode, "can-never-start", sarifText{"The workload can never start"}, sarifText{"It would not start on the same cluster without any other work."}},
		{waitsCode, "waits", sarifText{"The workload would wait"}, sarifText{"It would start if others ended."}},
	}}}, Results: []sarifResult{}}
	for _, rl := range rule.Rules() {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{rl.Code, rl.Name, sarifText{rl.Title}, sarifText{rl.Why}})
	}
	for i := range r.Workloads {
		w := &r.Workloads[i]
		switch w.Verdict {
		case submit.Never:
			run.Results = append(run.Results, sarifResult{neverCode, "error", sarifText{w.Target.String() + " can never start: " + verdictText(w)}, at(w.File, w.Line)})
		case submit.Waits:
			run.Results = append(run.Results, sarifResult{waitsCode, "note", sarifText{w.Target.String() + " waits: " + verdictText(w)}, at(w.File, w.Line)})
		}
	}
	for _, f := range allFindings(r) {
		run.Results = append(run.Results, sarifResult{f.Code, "warning", sarifText{f.Message}, at(f.File, f.Line)})
	}
	return sarif{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

func at(file string, line int) []sarifLocation {
	var l sarifLocation
	l.Physical.Artifact.URI = filepath.ToSlash(place(file))
	l.Physical.Region.StartLine = max(1, line)
	return []sarifLocation{l}
}
