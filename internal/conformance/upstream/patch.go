package main

import (
	"bytes"
	"fmt"
)

// edits are what is added to upstream's helpers, each after a text that occurs once: where a scheduler has just been
// made, it gives way.
var edits = []struct{ after, add string }{
	{"\tif err != nil {\n\t\tt.Fatalf(\"Couldn't create scheduler: %v\", err)\n\t}\n", "\tgiveWay(ctx, testCtx.Scheduler, testCtx.KubeConfig)\n"},
	{"\ttCtx.ExpectNoError(err, \"creating scheduler\")\n", "\tgiveWay(tCtx, sched, tCtx.RESTConfig(), cfg.Profiles...)\n"},
}

func patch(src []byte) ([]byte, error) {
	for _, e := range edits {
		if n := bytes.Count(src, []byte(e.after)); n != 1 {
			return nil, fmt.Errorf("upstream's test/integration/util/util.go has %q %d times, not once: adapt the edits in patch.go to this release", e.after, n)
		}
		src = bytes.Replace(src, []byte(e.after), []byte(e.after+e.add), 1)
	}
	return src, nil
}
