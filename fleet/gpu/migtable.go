package gpu

import "fmt"

// migTables has the profiles of each model, as `nvidia-smi mig -lgip` and `-lgipp` list them. Those of the H200 were read
// off a board under driver 580; A30, A100 and H100 SXM are as NVIDIA documents them and as boards print them. For H100 PCIe,
// H100 NVL and the Blackwell models the names, counts, places and copy engines are documented; memory and SMs of their
// parts are estimates.
var migTables = map[string][]Profile{
	"A30": {
		profile("1g.6gb", 14, ones(4), 4, 5952, 14, Engines{Copy: 1}),
		profile("1g.6gb+me", 21, ones(4), 1, 5952, 14, Engines{Copy: 1, Decoder: 1, JPEG: 1, OFA: 1}),
		profile("2g.12gb", 5, place{2, []int{0, 2}}, 2, 11968, 28, Engines{Copy: 2, Decoder: 2}),
		profile("2g.12gb+me", 6, place{2, []int{0, 2}}, 1, 11968, 28, Engines{Copy: 2, Decoder: 2, JPEG: 1, OFA: 1}),
		profile("4g.24gb", 0, place{4, []int{0}}, 1, 24064, 56, Engines{Copy: 4, Decoder: 4, JPEG: 1, OFA: 1}),
	},
	"A100-SXM4-40GB": a100("5gb", "10gb", "20gb", "40gb", 4864, 9984, 20096, 40448),
	"A100-PCIE-40GB": a100("5gb", "10gb", "20gb", "40gb", 4864, 9984, 20096, 40448),
	"A100-SXM4-80GB": a100("10gb", "20gb", "40gb", "80gb", 9728, 19968, 40192, 80640),
	"A100-PCIE-80GB": a100("10gb", "20gb", "40gb", "80gb", 9728, 19968, 40192, 80640),
	"H100-SXM5-80GB": hopper("10gb", "20gb", "40gb", "80gb", 9984, 20096, 40448, 81152, h100SMs),
	"H100-PCIE-80GB": hopper("10gb", "20gb", "40gb", "80gb", 9856, 19968, 40192, 80896, [6]int{14, 14, 30, 46, 62, 114}),
	"H100-NVL-94GB":  hopper("12gb", "24gb", "47gb", "94gb", 11264, 22784, 47616, 95232, h100SMs),
	"H200":           hopper("18gb", "35gb", "71gb", "141gb", 16384, 33280, 71424, 143360, h100SMs),
	"B200":           blackwell("23gb", "45gb", "90gb", "180gb", 21504, 44032, 90112, 182272, 148),
	"GB200":          blackwell("23gb", "47gb", "93gb", "186gb", 22016, 45056, 92672, 188416, 152),
}

// h100SMs are the SMs of 1g, 1g with double memory, 2g, 3g, 4g and 7g.
var h100SMs = [6]int{16, 26, 32, 60, 64, 132}

// place is how many memory slots an instance takes, and where it may begin.
type place struct {
	size   int
	starts []int
}

// ones are places of one slot each, at 0 to n-1.
func ones(n int) place {
	p := place{size: 1}
	for i := range n {
		p.starts = append(p.starts, i)
	}
	return p
}

func profile(name string, id int, at place, most, mib, sms int, e Engines) Profile {
	var slices int
	if _, err := fmt.Sscanf(name, "%dg", &slices); err != nil {
		panic("MIG profile " + name) // the table above is wrong
	}
	return Profile{Name: name, ID: id, Slices: slices, Size: at.size, Starts: at.starts, Max: most, MemoryMiB: mib, SMs: sms, Engines: e}
}

// eighths are the profiles of a GPU with seven compute slices and eight memory slots. Names and MiB are for one slot, two,
// four and all; SMs and engines for 1g, 1g+me, 1g with double memory, 2g, 3g, 4g and 7g.
func eighths(names [4]string, mib [4]int, sms [7]int, e [7]Engines) []Profile {
	two, four := place{2, []int{0, 2, 4}}, place{4, []int{0, 4}}
	return []Profile{
		profile("1g."+names[0], 19, ones(7), 7, mib[0], sms[0], e[0]),
		profile("1g."+names[0]+"+me", 20, ones(7), 1, mib[0], sms[1], e[1]),
		profile("1g."+names[1], 15, place{2, []int{0, 2, 4, 6}}, 4, mib[1], sms[2], e[2]),
		profile("2g."+names[1], 14, two, 3, mib[1], sms[3], e[3]),
		profile("3g."+names[2], 9, four, 2, mib[2], sms[4], e[4]),
		profile("4g."+names[2], 5, place{4, []int{0}}, 1, mib[2], sms[5], e[5]),
		profile("7g."+names[3], 0, place{8, []int{0}}, 1, mib[3], sms[6], e[6]),
	}
}

func a100(one, two, four, all string, mib1, mib2, mib4, mib8 int) []Profile {
	return eighths([4]string{one, two, four, all}, [4]int{mib1, mib2, mib4, mib8}, [7]int{14, 14, 14, 28, 42, 56, 98}, [7]Engines{
		{Copy: 1}, {Copy: 1, Decoder: 1, JPEG: 1, OFA: 1}, {Copy: 1, Decoder: 1}, {Copy: 2, Decoder: 1},
		{Copy: 3, Decoder: 2}, {Copy: 4, Decoder: 2}, {Copy: 7, Decoder: 5, JPEG: 1, OFA: 1},
	})
}

func hopper(one, two, four, all string, mib1, mib2, mib4, mib8 int, sm [6]int) []Profile {
	return eighths([4]string{one, two, four, all}, [4]int{mib1, mib2, mib4, mib8},
		[7]int{sm[0], sm[0], sm[1], sm[2], sm[3], sm[4], sm[5]}, [7]Engines{
			{Copy: 1, Decoder: 1, JPEG: 1}, {Copy: 1, Decoder: 1, JPEG: 1, OFA: 1}, {Copy: 1, Decoder: 1, JPEG: 1}, {Copy: 2, Decoder: 2, JPEG: 2},
			{Copy: 3, Decoder: 3, JPEG: 3}, {Copy: 4, Decoder: 4, JPEG: 4}, {Copy: 8, Decoder: 7, JPEG: 7, OFA: 1},
		})
}

func blackwell(one, two, four, all string, mib1, mib2, mib4, mib8, sms int) []Profile {
	e := func(copies, ofa int) Engines { return Engines{Copy: copies, Decoder: 1, JPEG: 1, OFA: ofa} }
	return eighths([4]string{one, two, four, all}, [4]int{mib1, mib2, mib4, mib8}, [7]int{18, 18, 18, 36, 70, 72, sms},
		[7]Engines{e(2, 0), e(2, 1), e(2, 0), e(3, 0), e(6, 0), e(8, 0), e(16, 1)})
}
