package mask

import (
	_ "embed"
	"math"
	"regexp"
	"strings"
)

//go:embed vocabulary.txt
var vocabularyText string

// vocabulary are words of Kubernetes', schedulers' and runtimes' own messages. A test makes the list from the texts
// that diagnosis looks for and the messages it was tried on.
var vocabulary = func() map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(vocabularyText) {
		m[w] = true
	}
	for w := range strings.FieldsSeq(hardwareWords) {
		m[w] = true
	}
	return m
}()

// hardwareWords are regions, models, sizes of machines, and units.
const hardwareWords = `us eu ap sa ca me af il cn gov north south east west central northeast southeast northwest southwest asia europe australia americas
	a10 a10g a30 a40 a100 a800 b100 b200 b300 gb200 gb300 gh200 h20 h100 h200 h800 l4 l40 l40s t4 v100 p100 k80 rtx v5litepod v5p v5e v6e hbm hbm2 hbm2e hbm3 hbm3e sxm sxm2 sxm3 sxm4 sxm5 pcie nvl nvl72 mi210 mi250 mi300 mi300x
	gb gib mb mib kb kib tb tib ki mi gi ti pi ei ms us ns hz mhz ghz xlarge metal highgpu megagpu ultragpu standard amd64 arm64 x86 sha256 ipv4 ipv6 utc http https tcp udp grpc api cuda cudnn nccl ib mlx5 eth0 ib0 tpu xid ecc nvlink nvswitch dbe sbe
	float bfloat16 bf16 float16 fp16 float32 fp32 float64 fp64 fp8 fp4 int8 int4 int16 int32 int64 uint8 e4m3 e5m2
	memcg cgroup gen mon tue wed thu fri sat sun jan feb mar apr jun jul aug sep oct nov dec gmt
	c10d csrc aten numel allreduce allgather reducescatter alltoall seqnum optype dmesg`

// Vocabulary says whether the word is one of messages.
func Vocabulary(w string) bool {
	if w == "" || len(w) > 40 {
		return false
	}
	if vocabulary[w] || vocabulary[strings.ToLower(w)] {
		return true
	}
	humps := split(w)
	for _, h := range humps {
		if len(h) < 2 || !vocabulary[strings.ToLower(h)] {
			return false
		}
	}
	return len(humps) > 1
}

// words masks the words that are not known to be harmless. A word is what is between spaces; where it has quotes,
// brackets, commas or the like in it, what is between those.
func (m *Masker) words(s string) string {
	var b strings.Builder
	done := 0
	for at := 0; at < len(s); {
		if isSpace(s[at]) {
			at++
			continue
		}
		end := at
		for end < len(s) && !isSpace(s[end]) {
			end++
		}
		if out := m.chunk(s[at:end]); out != s[at:end] && !m.sum(s[:at], s[at:end]) && !m.called(s[:at], s[at:end]) {
			b.WriteString(s[done:at])
			b.WriteString(out)
			done = end
		}
		at = end
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

// sumNames are names of hashes and of identities that are no secret.
var sumNames = func() map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(`commit revision rev md5 md5sum sha1 sha256 sha512 sha256sum sha fingerprint checksum crc crc32 crc32c etag if-none-match if-match container sandbox layer trace traceid trace_id trace-id span spanid span_id span-id
		pod-template-hash controller-revision-hash template-hash revision-hash`) {
		m[w] = true
	}
	return m
}()

// sums ends with such a name.
var sums = regexp.MustCompile(`(?i)(?:HEAD is now at|\b([a-z0-9_-]+)):?[ \t]+$`)

var hexadecimal = regexp.MustCompile(`^(?:W/)?\\?["'(\[]?(?:[0-9a-f]{7,128}(?:-\d{1,5})?|0x[0-9A-F]{7,32}|(?:[a-z][a-z0-9.-]{0,60}-)?[bcdfghjklmnpqrstvwxz2456789]{8,10})\\?["')\].,;:]{0,2}$`)

// sum says whether the word is a hash of something that is no secret, as the text before it says.
func (m *Masker) sum(before, word string) bool {
	if m.Strict || !hexadecimal.MatchString(word) {
		return false
	}
	at := sums.FindStringSubmatch(before[max(0, len(before)-32):])
	return at != nil && (at[1] == "" || sumNames[strings.ToLower(at[1])])
}

const kindWords = `(?:pod|job|job ?set|replica ?set|deployment|stateful ?set|daemon ?set|controller ?revision|workload|pod ?group|node|node ?claim|machine|claim|resource ?claim|persistentvolumeclaim|pvc|volume|slice|resource ?slice|service|lease|ray ?cluster|provisioning ?request)s?`

var (
	// kinds ends with what is followed by the name of an object, which may be gone: "Created pod: X".
	kinds = regexp.MustCompile(`(?i)\b` + kindWords + `:?[ \t]+["'(]?$`)
	// kindOf begins a name as kubectl writes it: replicaset.apps/X.
	kindOf = regexp.MustCompile(`^["'(\[]?` + kindWords + `(?:\.[a-z0-9.-]{1,60})?/`)
	// dashed is the name of one, of parts as long as those that controllers and clouds draw.
	dashed = regexp.MustCompile(`^["'(\[]?(?:[a-z0-9-]{1,63}/)?[a-z]{2}[a-z0-9]{0,14}(?:[.-][a-z0-9]{1,12}){1,12}["')\].,;:]{0,3}$`)
)

// called says whether the word is the name of an object, as the text before it says.
func (m *Masker) called(before, word string) bool {
	if m.Strict {
		return false
	}
	if at := kindOf.FindString(word); at != "" {
		return dashed.MatchString(word[len(at):])
	}
	return kinds.MatchString(before[max(0, len(before)-32):]) && dashed.MatchString(word)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// chunk is what is left of the text between two spaces.
func (m *Masker) chunk(s string) string {
	if m.harmless(s) {
		return s
	}
	if !strings.ContainsAny(s, "\"'`()[]{}<>,;=|:") {
		return masking(s)
	}
	var b strings.Builder
	name := "" // of what comes
	for at := 0; at < len(s); {
		end := at
		for end < len(s) && strings.IndexByte("\"'`()[]{}<>,;=|:", s[end]) < 0 {
			end++
		}
		part := s[at:end]
		switch {
		case part == "" || m.harmless(part) || !m.Strict && sumNames[name] && hexadecimal.MatchString(part):
			b.WriteString(part)
		default:
			b.WriteString(masking(part))
		}
		if end < len(s) {
			b.WriteByte(s[end])
			if name = ""; s[end] == '=' || s[end] == ':' {
				name = strings.ToLower(part)
			}
		}
		at = end + 1
	}
	return b.String()
}

// masking keeps the punctuation at the end of what is masked, and makes one mask of several.
func masking(s string) string {
	return Mask + s[len(strings.TrimRight(s, ".!?")):]
}

var (
	uuid  = regexp.MustCompile(`(?i)(?:\b|_)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	sha   = regexp.MustCompile(`\b(?:sha256:|(?:containerd|docker|cri-o)://)[0-9a-f]{64}\b`)
	stamp = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[Tt_ ]\d\d:?\d\d:?\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?`)
	// placed are identities that clouds give to machines, disks and the like, and names of nodes that are made of them.
	placed = regexp.MustCompile(`\b(?:i|vol|snap|ami|eni|vpc|subnet|sg|lt|cr|fleet)-[0-9a-f]{8}(?:[0-9a-f]{9})?\b|\bgke-[a-z0-9-]{1,45}-[0-9a-f]{8}-[a-z0-9]{4}\b|\baks-[a-z0-9]{1,12}-\d{8}-vmss[0-9a-z]{6}\b`)
	// givenEnd are the ends of names that controllers made: the hash of a template and five letters, of those that Kubernetes
	// draws from. What is before them has to be a word.
	givenEnd = regexp.MustCompile(`([a-z]{3,}[a-z0-9.-]{0,60}?)(?:-[bcdfghjklmnpqrstvwxz2456789]{6,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}(\b|_)`)
	// edition is a version with what distributions add to it.
	edition = regexp.MustCompile(`\bv?\d{1,4}(?:\.\d{1,5}){1,3}(?:(?:a|b|rc)\d{1,3})?(?:[-+._](?:[a-z]{1,12}\d{0,8}(?:\.\d{1,4})*|\d{1,8}|(?:g|git)?[0-9a-f]{7,12}))*\b`)
	address = regexp.MustCompile(`\b[0-9a-f]{1,4}(?::{1,2}[0-9a-f]{1,4}){3,7}\b`)
	// pointer is one, or the identity of a port; link is the name that Linux gives to a network interface.
	pointer = regexp.MustCompile(`\b0x[0-9a-fA-F]{1,16}\b`)
	link    = regexp.MustCompile(`\ben[ops]\d[a-z0-9]{0,10}\b`)
	// forms are what has digits and letters in it and is known all the same: a duration, the mark of a workload, a family
	// of machines, the type of one, a version of somebody's Kubernetes.
	forms  = regexp.MustCompile(`\b(?:\d{1,4}(?:h|ms|us|m|s|d))+\b|#[0-9a-f]{8,32}\b|\bstandard[A-Z][A-Za-z0-9]{1,20}Family\b|\bv\d{1,2}\.\d{1,3}\.\d{1,3}[+-](?:k3s|rke2r|eks|gke|aks|rc|alpha|beta)[a-z0-9.-]{0,12}|\b(?:` + strings.Join(machines, "|") + `)\b`)
	padded = regexp.MustCompile(`[A-Za-z0-9+/_-]{6,}={1,2}(?:$|[^=A-Za-z0-9])`)
	dense  = regexp.MustCompile(`[A-Za-z0-9+/_=-]{16,}`)
)

// machines are the forms of names that clouds give to types of machines. Without them nobody could tell what a node is, or what is
// sold out. Each form leaves room for numbers, a model or a size, and for nothing as long as a secret.
var machines = []string{
	`u-\d{1,2}tb\d\.(?:metal|\d{1,3}xlarge)`, // AWS; p6-b200.48xlarge, m7i-flex.large
	`[a-z]{1,4}\d{1,2}[a-z]{0,4}(?:-(?:flex|[a-z]{1,2}\d{3}))?\.(?:nano|micro|small|medium|large|\d{0,3}xlarge|metal(?:-\d{1,3}xl)?)`,
	`ecs\.[a-z]{1,5}\d{1,2}[a-z]{0,3}(?:-c\d{1,3}[gm]\d{1,3}|-\d{1,2}x)?\.(?:small|medium|large|\d{0,3}xlarge)`,                                                 // Alibaba Cloud
	`[a-z]{1,3}\d{1,2}[a-z]{0,2}-(?:standard|highmem|highcpu|highgpu|megagpu|ultragpu|edgegpu|hightpu|megamem|ultramem|hypermem)-\d{1,4}[gt]?(?:-lssd|-metal)?`, // Google
	`(?:Standard|Basic)_[A-Z]{1,3}\d{1,3}(?:-\d{1,3})?[a-z]{0,6}(?:_(?:NDR|[A-Z]{1,2}\d{1,3}X?)){0,2}(?:_v\d)?`,                                                 // Azure
	`(?:BM|VM)\.(?:GPU|Standard|Optimized|DenseIO|HPC)\d?(?:\.[A-Z]{1,2}\d{1,3}X?(?:-v\d)?)?(?:\.(?:\d{1,3}|Flex))?`,                                            // Oracle
	`(?:GN|PNV|GI|HCC)\d{1,2}[A-Za-z]{0,3}\.\d{0,2}X?LARGE\d{1,4}`,                                                                                              // Tencent
	`\d{1,3}x(?:[ablhtv]|g[bh]|mi|rtx)\d{1,4}[a-z]{0,2}`, `(?:[ablhtv]|g[bh]|mi)\d{1,4}x\d{1,2}`,                                                                // so many of a model, as CoreWeave, Lambda and DigitalOcean write it
	`[a-z]{2}\d[a-z]?-\d{1,3}x\d{1,4}(?:x\d{1,2}[a-z]{1,2}\d{1,3})?`, // IBM
}

// harmless says whether every part of the text is known not to be a secret.
func (m *Masker) harmless(s string) bool {
	if s == "" || s == Mask || m.isName(s) {
		return true
	}
	if len(s) >= 19 { // what has a form of its own
		if len(s) >= 71 {
			s = sha.ReplaceAllString(s, "")
		}
		if !m.Strict && len(s) >= 36 && strings.Count(s, "-") >= 4 {
			s = withoutUUIDs(s)
		}
		s = stamp.ReplaceAllString(s, "")
	}
	s = forms.ReplaceAllString(s, "")
	if !m.Strict && len(s) >= 5 {
		s = loose(s)
	}
	if strings.IndexByte(s, '=') > 0 && padded.MatchString(s) {
		return false
	}
	return m.runsHarmless(s)
}

// loose leaves out what is known where names are: identities of machines, addresses, versions, and the ends of names that
// controllers made of others.
func loose(s string) string {
	if len(s) >= 10 && strings.IndexByte(s, '-') > 0 {
		s = givenEnd.ReplaceAllString(placed.ReplaceAllString(s, ""), "${1}${2}")
	}
	if strings.IndexByte(s, '.') > 0 {
		s = edition.ReplaceAllString(s, "")
	}
	if strings.IndexByte(s, ':') > 0 {
		s = address.ReplaceAllString(s, "")
	}
	if strings.Contains(s, "0x") {
		s = pointer.ReplaceAllString(s, "")
	}
	if strings.Contains(s, "en") {
		s = link.ReplaceAllString(s, "")
	}
	return s
}

// withoutUUIDs leaves them out, but for those that follow what says that they are a secret: pat-na1-UUID.
func withoutUUIDs(s string) string {
	var b strings.Builder
	end := 0
	for _, at := range uuid.FindAllStringIndex(s, -1) {
		from := at[0]
		for from > end && isNamePart(s[from-1]) {
			from--
		}
		if name := strings.Trim(s[from:at[0]], "-_."); name == "api" || name == "sdk" || Sensitive(name) {
			continue
		}
		b.WriteString(s[end:at[0]])
		end = at[1]
	}
	return b.String() + s[end:]
}

// runsHarmless looks at the runs of letters and digits in the text.
func (m *Masker) runsHarmless(s string) bool {
	odd, names, unknown := 0, 0, 0
	for at := 0; at < len(s); {
		c := s[at]
		if c >= 0x80 {
			if m.Strict {
				return false
			}
			at++
			continue
		}
		if !isAlnum(c) {
			if strings.IndexByte("!#$%^&*+~?@\\", c) >= 0 && at > 0 && at+1 < len(s) && isAlnum(s[at-1]) && isAlnum(s[at+1]) {
				odd++
			}
			at++
			continue
		}
		if n := m.nameAt(s, at); n > 0 {
			at += n
			names++
			continue
		}
		end := at
		for end < len(s) && isAlnum(s[end]) {
			end++
		}
		switch m.run(s[at:end]) {
		case bad:
			return false
		case mixed:
			odd, unknown = odd+1, unknown+1
		case good:
			unknown++
		}
		at = end
	}
	return odd < 2 && !(odd > 0 && m.Strict && names == 0) && !(unknown > 0 && m.denseAt(s))
}

// denseAt says whether the text has a long piece in which capitals, small letters and digits are mixed as they are in
// what was encoded.
func (m *Masker) denseAt(s string) bool {
	if len(s) < 16 {
		return false
	}
	for _, p := range dense.FindAllString(s, -1) {
		if m.isName(p) {
			continue
		}
		upper, lower, digit, turns := 0, 0, 0, 0
		class := byte(0)
		for i := range len(p) {
			now := byte(0)
			switch c := p[i]; {
			case c >= 'A' && c <= 'Z':
				upper, now = upper+1, 'A'
			case c >= 'a' && c <= 'z':
				lower, now = lower+1, 'a'
			case c >= '0' && c <= '9':
				digit, now = digit+1, '0'
			}
			if now != class && class != 0 && now != 0 {
				turns++
			}
			class = now
		}
		if upper > 1 && lower > 1 && digit > 1 && turns > len(p)/4 && entropy(p) > 3.2 {
			return true
		}
	}
	return false
}

// entropy is in bits per byte.
func entropy(s string) float64 {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	h := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(s))
			h -= p * math.Log2(p)
		}
	}
	return h
}

// judgement is what a run of letters and digits is.
type judgement int

const (
	known judgement = iota // it is in the vocabulary, or made of what is
	good
	mixed // letters and digits that mean nothing, too short to be a secret alone
	bad
)

// run judges a run of letters and digits.
func (m *Masker) run(r string) judgement {
	if Vocabulary(r) {
		return known
	}
	letters, digits := 0, 0
	for i := range len(r) {
		if r[i] >= '0' && r[i] <= '9' {
			digits++
		} else {
			letters++
		}
	}
	switch {
	case letters == 0 && m.Strict:
		return judge(len(r) <= 5 || len(r) == 9)
	case letters == 0:
		return judge(len(r) <= 13)
	case digits == 0:
		return m.letters(r)
	}
	return m.mixed(r)
}

func judge(ok bool) judgement {
	if ok {
		return good
	}
	return bad
}

// letters judges a run of letters alone: words of messages, joined as in CamelCase, and, unless strict, what can be
// pronounced.
func (m *Masker) letters(r string) judgement {
	humps := split(r)
	if len(r) == 1 {
		return good
	}
	if m.Strict {
		return bad
	}
	if len(r) < 8 {
		switch odd := len(humps) > 1 || len(r) > 3 && gibberish(strings.ToLower(r)); {
		case len(humps) > 3:
			return bad
		case odd:
			return mixed
		}
		return good
	}
	if len(r) > 64 || len(humps) > 3 && len(r) < 4*len(humps) || len(r) > 24 && len(humps) == 1 {
		return bad
	}
	for _, h := range humps {
		if h = strings.ToLower(h); len(h) > 5 && gibberish(h) || unlikely(h) {
			return bad
		}
	}
	return good
}

// split parts a run of letters where a small letter is followed by a capital, or capitals by a word.
func split(r string) []string {
	var out []string
	start := 0
	upper := func(i int) bool { return r[i] >= 'A' && r[i] <= 'Z' }
	for i := 1; i < len(r); i++ {
		if upper(i) && (!upper(i-1) || i+1 < len(r) && !upper(i+1)) {
			out = append(out, r[start:i])
			start = i
		}
	}
	return append(out, r[start:])
}

// gibberish says whether letters in small are no word: five consonants in a row, or hardly a vowel.
func gibberish(s string) bool {
	row, vowels := 0, 0
	for i := range len(s) {
		if strings.IndexByte("aeiouy", s[i]) >= 0 {
			row = 0
			vowels++
			continue
		}
		if row++; row >= 5 {
			return true
		}
	}
	return vowels*6 < len(s)
}

// mixed judges a run of letters and digits.
func (m *Masker) mixed(r string) judgement {
	pieces, meant := 0, false
	for at := 0; at < len(r); {
		end, digit := at, isDigit(r[at])
		for end < len(r) && isDigit(r[end]) == digit {
			end++
		}
		p := r[at:end]
		switch {
		case digit && len(p) > 6 && len(p) != 9:
			return bad
		case !digit && Vocabulary(p):
			meant = meant || len(p) > 2
		case !digit && (m.Strict && len(p) > 1 || len(p) > 2):
			return bad
		}
		pieces++
		at = end
	}
	switch {
	case meant && pieces <= 4:
		return known
	case pieces == 2:
		return good
	case pieces <= 3 && len(r) <= 6:
		return mixed
	}
	return bad
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
