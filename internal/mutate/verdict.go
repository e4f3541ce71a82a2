package main

import (
	"regexp"
	"strings"
)

type outcome int

const (
	survived outcome = iota // no test noticed
	killed
	broken // it does not compile
)

// verdict is what the tests say of a mutant.
type verdict struct {
	outcome outcome
	test    string // of a killed one: the first test that failed
	how     string // what the test did, where it did not simply fail
	output  string // of the tests, or of the compiler
}

func (v verdict) String() string {
	switch {
	case v.outcome == survived:
		return "SURVIVED"
	case v.outcome == broken:
		return "DOES NOT COMPILE"
	case v.how == "":
		return "killed by " + v.test
	}
	return "killed by " + v.test + ", which " + v.how
}

var (
	failed   = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	timedOut = regexp.MustCompile(`(?ms)^panic: test timed out after .*?running tests:\s+(\S+)`)
	inTest   = regexp.MustCompile(`(?m)^\S*\.((?:Test|Fuzz|Example)\w*)(?:\.func\d+)*\(`) // a line of a goroutine's trace
)

// judge reads the output of tests.
func judge(output string, passed bool) verdict {
	v := verdict{outcome: killed, output: output}
	switch {
	case passed:
		v.outcome = survived
	case timedOut.MatchString(output):
		v.test, v.how = timedOut.FindStringSubmatch(output)[1], "timed out"
	case failed.MatchString(output):
		v.test = innermost(failed.FindAllStringSubmatch(output, -1))
	case inTest.MatchString(output):
		v.test, v.how = inTest.FindStringSubmatch(output)[1], "crashed"
	default:
		v.test, v.how = "a test", "crashed without a name"
	}
	return v
}

// innermost is the first failing test, down to its first failing subtest. Go prints a test above its
// subtests.
func innermost(failures [][]string) string {
	name := failures[0][1]
	for _, f := range failures[1:] {
		if !strings.HasPrefix(f[1], name+"/") {
			break
		}
		name = f[1]
	}
	return name
}
