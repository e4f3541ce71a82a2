package main

import "testing"

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct{ output, want string }{
		"a failure": {
			"--- FAIL: TestA (0.00s)\n    a_test.go:3: no\nFAIL\nFAIL\tm\t0.1s\n",
			"killed by TestA",
		},
		"the first subtest": {
			"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n        --- FAIL: TestA/b/c (0.00s)\n    --- FAIL: TestA/d (0.00s)\n",
			"killed by TestA/b/c",
		},
		"the first of two": {
			"--- FAIL: TestA (0.00s)\n--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/c (0.00s)\n",
			"killed by TestA",
		},
		"a panic": {
			"--- FAIL: TestA (0.00s)\npanic: boom [recovered]\n\ngoroutine 7 [running]:\nm.TestA(0x1)\n",
			"killed by TestA",
		},
		"no end": {
			"ok  \tm/other\t0.1s\npanic: test timed out after 1s\n\trunning tests:\n\t\tTestA/b (1s)\n\ngoroutine 9 [running]:\n",
			"killed by TestA/b, which timed out",
		},
		"no end of stack": {
			"runtime: goroutine stack exceeds 1000000000-byte limit\nfatal error: stack overflow\n\nm.depth(...)\nm.TestDepth(0xc0)\n\t/m/m_test.go:3\n",
			"killed by TestDepth, which crashed",
		},
		"a crash in a subtest": {
			"fatal error: concurrent map writes\n\nexample.com/m.TestA.func1(0xc0)\n",
			"killed by TestA, which crashed",
		},
		"a crash without a trace": {
			"signal: killed\nFAIL\tm\t3.1s\n",
			"killed by a test, which crashed without a name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(c.output, false).String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := judge("ok  \tm\t0.1s\n", true).String(); got != "SURVIVED" {
		t.Errorf("tests that pass: got %q", got)
	}
}
