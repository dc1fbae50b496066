package sharing

import (
	"cmp"
	"slices"
)

// board is a GPU as the table below writes it down: numbers that are zero are unknown.
type board struct {
	name    string
	aliases []string
	pci     []string
	chip    string
	cc      ComputeCapability
	ccSrc   SourceID
	mem     int // MiB, as a driver reports it unless nominal is set
	memSrc  SourceID
	nominal bool
	gbps    float64
	gbpsSrc SourceID
	sms     int
	smsSrc  SourceID
	mig     Driver   // the oldest driver with MIG; {1} = not known; zero = no MIG
	noMIG   SourceID // who says so, where mig is zero
	vgpu    SourceID
	src     SourceID
	note    string
}

// names writes a list of aliases or PCI ids.
func names(s ...string) []string { return s }

const (
	boardCC    = SourceID("nvidia-cuda-gpus")
	boardGuide = SourceID("nvidia-mig-guide-gpus")
	boardSMI   = SourceID("nvidia-smi")
	boardMIG   = SourceID("cotenant-mig-catalogue")
	boardIDs   = SourceID("nvidia-kernel-names")
	boardProps = SourceID("nvidia-cuda-properties")
	boardXLA   = SourceID("openxla-targets")
	boardTRT   = SourceID("tensorrt-llm-clusters")
	boardBW    = SourceID("nvidia-blackwell-datasheet")
)

// migUnknownDriver marks a board that has MIG from a driver we do not know.
var migUnknownDriver = Driver{1, 0, 0}

var gpuTable = buildGPUs(boards)

func buildGPUs(rows []board) []GPU {
	table := make([]GPU, 0, len(rows))
	for _, b := range rows {
		g := GPU{Name: b.name, Aliases: b.aliases, PCIIDs: b.pci, Source: b.src, Chip: b.chip,
			Architecture: chipArchitecture(b.chip), Note: b.note}
		if b.cc != (ComputeCapability{}) {
			g.ComputeCapability = KnownCell(b.cc, b.ccSrc)
		}
		if b.mem > 0 {
			g.Memory = KnownCell(Bytes(b.mem)*MiB, b.memSrc)
			g.MemoryVisible = !b.nominal
		}
		if b.gbps > 0 {
			g.MemoryBandwidthGBps = KnownCell(b.gbps, b.gbpsSrc)
		}
		if b.sms > 0 {
			g.SMs = KnownCell(b.sms, b.smsSrc)
		}
		g.MIG = KnownCell(AnswerOf(!b.mig.IsZero()), boardMIG)
		if b.mig.IsZero() {
			g.MIG.Source = b.noMIG
		} else if b.mig != migUnknownDriver {
			g.MIGMinDriver = KnownCell(b.mig, boardMIG)
		}
		if g.Architecture >= ArchitectureTuring {
			g.TimesliceSetting = KnownCell(AnswerYes, "nvidia-kernel-timeslice-setting")
		}
		if b.vgpu != "" {
			g.VGPU = KnownCell(AnswerYes, b.vgpu)
		}
		table = append(table, g)
	}
	slices.SortFunc(table, func(a, b GPU) int { return cmp.Compare(a.Name, b.Name) })
	return table
}

// chipArchitecture reads the generation off a chip's name.
func chipArchitecture(chip string) Architecture {
	switch chip[:2] {
	case "GP":
		return ArchitecturePascal
	case "GV":
		return ArchitectureVolta
	case "TU":
		return ArchitectureTuring
	case "GA":
		return ArchitectureAmpere
	case "AD":
		return ArchitectureAda
	case "GH":
		return ArchitectureHopper
	case "GB":
		return ArchitectureBlackwell
	}
	return ArchitectureUnknown
}

var (
	cc60  = ComputeCapability{6, 0}
	cc70  = ComputeCapability{7, 0}
	cc75  = ComputeCapability{7, 5}
	cc80  = ComputeCapability{8, 0}
	cc86  = ComputeCapability{8, 6}
	cc89  = ComputeCapability{8, 9}
	cc90  = ComputeCapability{9, 0}
	cc100 = ComputeCapability{10, 0}
	cc103 = ComputeCapability{10, 3}
	cc120 = ComputeCapability{12, 0}
	cc121 = ComputeCapability{12, 1}
)

var boards = []board{
	{name: "Tesla P100-PCIE-12GB", aliases: names("P100", "P100-12GB", "P100-PCIE-12GB"), pci: names("10DE:15F7"),
		chip: "GP100",
		cc:   cc60, ccSrc: boardCC, mem: 12288, memSrc: boardIDs, nominal: true, gbps: 549, gbpsSrc: boardXLA, sms: 56,
		smsSrc: boardXLA, noMIG: boardGuide, vgpu: boardIDs, src: boardIDs},
	{name: "Tesla P100-PCIE-16GB", aliases: names("P100", "P100-PCIE", "P100-PCIE-16GB"), pci: names("10DE:15F8"),
		chip: "GP100",
		cc:   cc60, ccSrc: boardCC, mem: 16280, memSrc: boardSMI, gbps: 732, gbpsSrc: boardXLA, sms: 56, smsSrc: boardXLA,
		noMIG: boardGuide, vgpu: boardIDs, src: boardIDs},
	{name: "Tesla P100-SXM2-16GB", aliases: names("P100", "P100-SXM2", "P100-16GB", "P100-SXM2-16GB"),
		pci: names("10DE:15F9"), chip: "GP100",
		cc: cc60, ccSrc: boardCC, mem: 16384, memSrc: boardIDs, nominal: true, gbps: 732, gbpsSrc: boardXLA, sms: 56,
		smsSrc: boardXLA, noMIG: boardGuide, vgpu: boardIDs, src: boardIDs},

	{name: "Tesla V100-SXM2-16GB", aliases: names("V100", "V100-16GB", "V100-SXM2-16GB", "V100M16"),
		pci: names("10DE:1DB1"), chip: "GV100",
		cc: cc70, ccSrc: boardCC, mem: 16384, memSrc: boardSMI, gbps: 900, gbpsSrc: "nvidia-v100-datasheet", sms: 80,
		smsSrc: boardXLA, noMIG: boardGuide, vgpu: boardIDs, src: boardIDs},
	{name: "Tesla V100-PCIE-16GB", aliases: names("V100", "V100-PCIE-16GB"), pci: names("10DE:1DB4"), chip: "GV100",
		cc: cc70, ccSrc: boardCC, mem: 16384, memSrc: boardSMI, gbps: 900, gbpsSrc: "nvidia-v100-datasheet", sms: 80,
		smsSrc: boardXLA, noMIG: boardGuide, vgpu: boardIDs, src: boardIDs},
	{name: "Tesla V100-SXM2-32GB", aliases: names("V100", "V100-32GB", "V100-SXM2-32GB", "V100M32"),
		pci: names("10DE:1DB5"), chip: "GV100",
		cc: cc70, ccSrc: boardCC, mem: 32768, memSrc: boardSMI, gbps: 900, gbpsSrc: "nvidia-v100-datasheet", sms: 80,
		smsSrc: boardXLA, noMIG: boardGuide, vgpu: boardIDs, src: boardIDs},
	{name: "Tesla V100-PCIE-32GB", aliases: names("V100", "V100-PCIE-32GB"), pci: names("10DE:1DB6"), chip: "GV100",
		cc: cc70, ccSrc: boardCC, mem: 32768, memSrc: boardSMI, gbps: 900, gbpsSrc: "nvidia-v100-datasheet", sms: 80,
		smsSrc: boardXLA, noMIG: boardGuide, vgpu: boardIDs, src: boardIDs},

	{name: "Tesla T4", aliases: names("T4", "T4-16GB"), pci: names("10DE:1EB8"), chip: "TU104",
		cc: cc75, ccSrc: boardProps, mem: 15360, memSrc: boardSMI, gbps: 320, gbpsSrc: boardProps, sms: 40,
		smsSrc: boardProps, noMIG: boardGuide, vgpu: boardIDs, src: "pci-ids",
		note: "bandwidth is what clock and bus width give; the data sheet is quoted with 300 GB/s"},
	{name: "GeForce RTX 2080 Ti", aliases: names("RTX 2080 Ti", "2080 Ti"), pci: names("10DE:1E04", "10DE:1E07"),
		chip: "TU102",
		cc:   cc75, ccSrc: boardProps, mem: 11264, memSrc: boardSMI, gbps: 616, gbpsSrc: boardProps, sms: 68,
		smsSrc: boardProps, noMIG: boardGuide, src: boardIDs},

	{name: "Quadro RTX 6000", aliases: names("RTX 6000", "RTX 6000 Turing"), pci: names("10DE:1E36"), chip: "TU102",
		cc: cc75, ccSrc: boardCC, mem: 24576, memSrc: boardSMI, gbps: 672, gbpsSrc: "nvidia-quadro-rtx-6000", sms: 72,
		smsSrc: "nvidia-quadro-rtx-6000", noMIG: boardSMI, src: "pci-ids",
		note: "with ECC 22698 MiB; the PCI device ids 10DE:1E30 and 10DE:1E78 are the Quadro RTX 8000's too, so give the name"},

	{name: "A2", aliases: names("A2-16GB"), pci: names("10DE:25B6"), chip: "GA107",
		cc: cc86, ccSrc: boardCC, mem: 15356, memSrc: boardSMI, gbps: 200, gbpsSrc: "nvidia-a2", noMIG: boardSMI,
		src:  boardIDs,
		note: "shares its PCI device id with A16"},
	{name: "A10", aliases: names("A10-24GB", "A10 PCIe"), pci: names("10DE:2236"), chip: "GA102",
		cc: cc86, ccSrc: boardCC, mem: 23028, memSrc: boardSMI, gbps: 600, gbpsSrc: boardTRT, sms: 72, smsSrc: boardProps,
		noMIG: boardSMI, vgpu: boardIDs, src: boardIDs},
	{name: "A10G", aliases: names("A10G-24GB"), pci: names("10DE:2237"), chip: "GA102",
		cc: cc86, ccSrc: boardProps, mem: 23028, memSrc: boardSMI, gbps: 600, gbpsSrc: boardTRT, sms: 80, smsSrc: boardProps,
		noMIG: boardSMI, src: boardIDs},
	{name: "A16", aliases: names("A16-16GB"), pci: names("10DE:25B6"), chip: "GA107",
		cc: cc86, ccSrc: boardCC, mem: 15356, memSrc: boardSMI, gbps: 200, gbpsSrc: "nvidia-a16", noMIG: boardSMI,
		src:  boardIDs,
		note: "a board carries four of these GPUs; figures are those of one; shares its PCI device id with A2"},
	{name: "A30", aliases: names("A30-24GB", "A30 PCIe"), pci: names("10DE:20B7"), chip: "GA100",
		cc: cc80, ccSrc: boardGuide, mem: 24576, memSrc: boardMIG, gbps: 933, gbpsSrc: boardTRT, sms: 56, smsSrc: boardMIG,
		mig: Driver{460, 73, 1}, vgpu: boardMIG, src: boardMIG},
	{name: "A40", aliases: names("A40-48GB"), pci: names("10DE:2235"), chip: "GA102",
		cc: cc86, ccSrc: boardCC, mem: 46068, memSrc: boardSMI, gbps: 696, gbpsSrc: boardTRT, sms: 84, smsSrc: boardProps,
		noMIG: boardSMI, vgpu: boardIDs, src: boardIDs},
	{name: "GeForce RTX 3090", aliases: names("RTX 3090", "3090"), pci: names("10DE:2204"), chip: "GA102",
		cc: cc86, ccSrc: boardCC, mem: 24576, memSrc: boardSMI, gbps: 936, gbpsSrc: boardProps, sms: 82, smsSrc: boardProps,
		noMIG: boardSMI, src: "pci-ids"},
	{name: "A100-SXM4-40GB", aliases: names("A100", "A100-40GB", "A100-SXM", "A100-SXM-40GB", "A100 SXM4 40GB"),
		pci: names("10DE:20B0"), chip: "GA100",
		cc: cc80, ccSrc: boardGuide, mem: 40960, memSrc: boardMIG, gbps: 1555, gbpsSrc: boardTRT, sms: 108, smsSrc: boardMIG,
		mig: Driver{450, 80, 2}, vgpu: boardMIG, src: boardMIG},
	{name: "A100-PCIE-40GB", aliases: names("A100", "A100-PCIE", "A100 40GB PCIe", "A100 PCIe 40GB"),
		pci: names("10DE:20B1", "10DE:20F1"), chip: "GA100",
		cc: cc80, ccSrc: boardGuide, mem: 40960, memSrc: boardMIG, gbps: 1555, gbpsSrc: boardTRT, sms: 108, smsSrc: boardMIG,
		mig: Driver{450, 80, 2}, vgpu: boardMIG, src: boardMIG},
	{name: "A100-SXM4-80GB", aliases: names("A100", "A100-80GB", "A100-SXM", "A100-SXM-80GB", "A100 SXM4 80GB"),
		pci: names("10DE:20B2"), chip: "GA100",
		cc: cc80, ccSrc: boardGuide, mem: 81920, memSrc: boardMIG, gbps: 2039, gbpsSrc: boardTRT, sms: 108, smsSrc: boardMIG,
		mig: Driver{450, 80, 2}, vgpu: boardMIG, src: boardMIG},
	{name: "A100 80GB PCIe", aliases: names("A100", "A100-PCIE", "A100-PCIE-80GB"), pci: names("10DE:20B5"), chip: "GA100",
		cc: cc80, ccSrc: boardGuide, mem: 81920, memSrc: boardMIG, gbps: 1935, gbpsSrc: boardTRT, sms: 108, smsSrc: boardMIG,
		mig: Driver{450, 80, 2}, vgpu: boardMIG, src: boardMIG},
	{name: "A800-SXM4-40GB", aliases: names("A800", "A800-40GB", "A800-SXM"), pci: names("10DE:20BD"), chip: "GA100",
		cc: cc80, ccSrc: boardMIG, mem: 40960, memSrc: boardMIG, sms: 108, smsSrc: boardMIG, mig: migUnknownDriver,
		vgpu: boardMIG, src: boardMIG},
	{name: "A800 40GB Active", aliases: names("A800", "A800 40GB PCIe"), pci: names("10DE:20F6"), chip: "GA100",
		cc: cc80, ccSrc: boardMIG, mem: 40960, memSrc: boardMIG, gbps: 1555, gbpsSrc: "nvidia-a800", sms: 108,
		smsSrc: boardMIG, mig: migUnknownDriver, vgpu: boardMIG, src: boardMIG},
	{name: "A800-SXM4-80GB", aliases: names("A800", "A800-80GB", "A800-SXM"), pci: names("10DE:20F3"), chip: "GA100",
		cc: cc80, ccSrc: boardMIG, mem: 81920, memSrc: boardMIG, sms: 108, smsSrc: boardMIG, mig: migUnknownDriver,
		vgpu: boardMIG, src: boardMIG},
	{name: "A800 80GB PCIe", aliases: names("A800", "A800-PCIE-80GB", "A800 80GB PCIe LC"), pci: names("10DE:20F5"),
		chip: "GA100",
		cc:   cc80, ccSrc: boardMIG, mem: 81920, memSrc: boardMIG, sms: 108, smsSrc: boardMIG, mig: migUnknownDriver,
		vgpu: boardMIG, src: boardMIG},

	{name: "L4", aliases: names("L4-24GB"), pci: names("10DE:27B8"), chip: "AD104",
		cc: cc89, ccSrc: boardCC, mem: 23034, memSrc: boardSMI, gbps: 300, gbpsSrc: boardTRT, sms: 58, smsSrc: boardProps,
		noMIG: boardSMI, vgpu: boardIDs, src: boardIDs},
	{name: "L40", aliases: names("L40-48GB"), pci: names("10DE:26B5"), chip: "AD102",
		cc: cc89, ccSrc: boardCC, mem: 46068, memSrc: boardSMI, gbps: 864, gbpsSrc: boardTRT, sms: 142, smsSrc: "nvidia-l40",
		noMIG: boardSMI, vgpu: boardIDs, src: boardIDs},
	{name: "L40S", aliases: names("L40S-48GB"), pci: names("10DE:26B9"), chip: "AD102",
		cc: cc89, ccSrc: boardCC, mem: 46068, memSrc: boardSMI, gbps: 864, gbpsSrc: boardTRT, sms: 142, smsSrc: boardProps,
		noMIG: boardSMI, vgpu: boardIDs, src: boardIDs},
	{name: "L20", aliases: names("L20-48GB"), pci: names("10DE:26BA"), chip: "AD102",
		cc: cc89, ccSrc: boardProps, mem: 46068, memSrc: boardSMI, gbps: 864, gbpsSrc: "technical-city-l20", sms: 92,
		smsSrc: "technical-city-l20", noMIG: boardSMI, src: "pci-ids",
		note: "no data sheet of NVIDIA's was read: bandwidth and SMs (11776 cores, 128 to an SM) are second-hand"},
	{name: "RTX 6000 Ada Generation", aliases: names("RTX 6000 Ada", "RTX 6000"), pci: names("10DE:26B1"), chip: "AD102",
		cc: cc89, ccSrc: boardCC, mem: 49140, memSrc: boardSMI, gbps: 960, gbpsSrc: "nvidia-rtx-6000-ada", sms: 142,
		smsSrc: boardProps, noMIG: boardSMI, vgpu: boardIDs, src: "pci-ids",
		note: "less memory with ECC: 46068 MiB on its sister boards"},
	{name: "GeForce RTX 4090", aliases: names("RTX 4090", "4090"), pci: names("10DE:2684"), chip: "AD102",
		cc: cc89, ccSrc: boardCC, mem: 24564, memSrc: boardSMI, gbps: 1008, gbpsSrc: boardProps, sms: 128, smsSrc: boardProps,
		noMIG: boardSMI, src: boardIDs},

	{name: "H100 80GB HBM3", aliases: names("H100", "H100-SXM", "H100-SXM5", "H100-80GB", "H100-SXM5-80GB",
		"H100-SXM-80GB"), pci: names("10DE:2330"), chip: "GH100",
		cc: cc90, ccSrc: boardCC, mem: 81559, memSrc: boardMIG, gbps: 3350, gbpsSrc: boardTRT, sms: 132, smsSrc: boardMIG,
		mig: Driver{525, 85, 12}, vgpu: boardMIG, src: boardMIG},
	{name: "H100 PCIe", aliases: names("H100", "H100-PCIE-80GB", "H100 80GB PCIe"), pci: names("10DE:2331"), chip: "GH100",
		cc: cc90, ccSrc: boardCC, mem: 81559, memSrc: boardMIG, gbps: 2000, gbpsSrc: boardTRT, sms: 114, smsSrc: boardMIG,
		mig: Driver{525, 85, 12}, vgpu: boardMIG, src: boardMIG},
	{name: "H100 NVL", aliases: names("H100", "H100-94GB", "H100-NVL-94GB"), pci: names("10DE:2321"), chip: "GH100",
		cc: cc90, ccSrc: boardCC, mem: 95830, memSrc: boardSMI, gbps: 3938, gbpsSrc: "nvidia-h100-nvl-brief", sms: 132,
		smsSrc: boardMIG, mig: Driver{525, 85, 12}, vgpu: boardMIG, src: boardMIG},
	{name: "H100 SXM5 94GB", aliases: names("H100", "H100-SXM5-94GB"), pci: names("10DE:2339"), chip: "GH100",
		cc: cc90, ccSrc: boardCC, mem: 96256, memSrc: boardMIG, nominal: true, mig: Driver{525, 85, 12}, vgpu: boardMIG,
		src:  boardMIG,
		note: "the driver's own name for this board is plain H100"},
	{name: "H800", aliases: names("H800-SXM", "H800-80GB"), pci: names("10DE:2324"), chip: "GH100",
		cc: cc90, ccSrc: boardMIG, mem: 81559, memSrc: boardSMI, mig: migUnknownDriver, vgpu: boardMIG, src: boardMIG},
	{name: "H800 PCIe", pci: names("10DE:2322"), chip: "GH100",
		cc: cc90, ccSrc: boardMIG, mem: 81920, memSrc: boardMIG, nominal: true, mig: migUnknownDriver, vgpu: boardMIG,
		src: boardMIG},
	{name: "H800 NVL", pci: names("10DE:233A"), chip: "GH100",
		cc: cc90, ccSrc: boardMIG, mem: 96256, memSrc: boardMIG, nominal: true, mig: migUnknownDriver, vgpu: boardMIG,
		src: boardMIG},
	{name: "GH200 480GB", aliases: names("GH200", "GH200 120GB", "GH200-96GB", "GH200 96GB HBM3"), pci: names("10DE:2342"),
		chip: "GH100",
		cc:   cc90, ccSrc: boardCC, mem: 97871, memSrc: boardSMI, gbps: 4000, gbpsSrc: "nvidia-gh200-datasheet", sms: 132,
		smsSrc: boardMIG, mig: migUnknownDriver, src: boardMIG,
		note: "the 480GB or 120GB of the name is the CPU's memory; the GPU has 96 GB"},
	{name: "GH200 144G HBM3e", aliases: names("GH200", "GH200-144GB"), pci: names("10DE:2348"), chip: "GH100",
		cc: cc90, ccSrc: boardCC, mem: 147456, memSrc: boardMIG, nominal: true, gbps: 4900, gbpsSrc: "nvidia-gh200-datasheet",
		sms: 132, smsSrc: boardMIG, mig: migUnknownDriver, src: boardMIG},
	{name: "H200", aliases: names("H200-SXM", "H200-141GB", "H200 SXM 141GB", "H200-SXM5-141GB"), pci: names("10DE:2335"),
		chip: "GH100",
		cc:   cc90, ccSrc: boardCC, mem: 143771, memSrc: "cotenant-h200-nvml", gbps: 4800, gbpsSrc: boardTRT, sms: 132,
		smsSrc: "cotenant-h200-nvml", mig: Driver{550, 90, 7}, vgpu: boardMIG, src: boardMIG},
	{name: "H200 NVL", aliases: names("H200-NVL-141GB"), pci: names("10DE:233B"), chip: "GH100",
		cc: cc90, ccSrc: boardCC, mem: 143771, memSrc: boardSMI, gbps: 4800, gbpsSrc: boardTRT, mig: migUnknownDriver,
		vgpu: boardMIG, src: boardMIG},
	{name: "H20", aliases: names("H20-96GB"), pci: names("10DE:2329"), chip: "GH100",
		cc: cc90, ccSrc: boardGuide, mem: 97871, memSrc: boardSMI, gbps: 4000, gbpsSrc: boardTRT, sms: 78, smsSrc: boardMIG,
		mig: Driver{535, 161, 7}, vgpu: boardMIG, src: boardMIG},
	{name: "H20-3e", aliases: names("H20-141GB", "H20 HBM3e"), pci: names("10DE:232C"), chip: "GH100",
		cc: cc90, ccSrc: boardMIG, mem: 144384, memSrc: boardMIG, nominal: true, sms: 78, smsSrc: boardMIG,
		mig: migUnknownDriver, vgpu: boardMIG, src: boardMIG},

	{name: "B200", aliases: names("B200-180GB"), pci: names("10DE:2901"), chip: "GB100",
		cc: cc100, ccSrc: boardCC, mem: 183359, memSrc: boardSMI, gbps: 7700, gbpsSrc: boardBW, sms: 148, smsSrc: boardMIG,
		mig: Driver{570, 133, 20}, vgpu: boardMIG, src: boardMIG,
		note: "bandwidth is the Blackwell data sheet's, and a device's clock and bus width give 7672; DGX B200 documents " +
			"print 8 TB/s"},
	{name: "GB200", pci: names("10DE:2941"), chip: "GB100",
		cc: cc100, ccSrc: boardCC, mem: 189471, memSrc: boardSMI, gbps: 8000, gbpsSrc: boardBW, sms: 152, smsSrc: boardXLA,
		mig: Driver{570, 133, 20}, vgpu: boardMIG, src: boardMIG},
	{name: "B300 SXM6 AC", aliases: names("B300"), pci: names("10DE:3182"), chip: "GB110",
		cc: cc103, ccSrc: boardCC, mem: 275040, memSrc: boardSMI, gbps: 8000, gbpsSrc: "nvidia-hgx", mig: Driver{580, 82, 7},
		vgpu: boardMIG, src: boardMIG},
	{name: "GB300", pci: names("10DE:31C2", "10DE:31C3"), chip: "GB110",
		cc: cc103, ccSrc: boardCC, mem: 284208, memSrc: boardSMI, gbps: 8000, gbpsSrc: "nvidia-gb300-nvl72", sms: 152,
		smsSrc: boardXLA, mig: Driver{595, 58, 3}, src: boardMIG,
		note: "the oldest driver is the one documented for DGX Station"},

	{name: "GeForce RTX 5090", aliases: names("RTX 5090", "5090"), pci: names("10DE:2B85"), chip: "GB202",
		cc: cc120, ccSrc: boardCC, mem: 32607, memSrc: boardSMI, gbps: 1792, gbpsSrc: boardProps, sms: 170,
		smsSrc: boardProps, noMIG: boardSMI, src: "pci-ids"},
	{name: "GB10", aliases: names("DGX Spark"), pci: names("10DE:2E12"), chip: "GB20B",
		cc: cc121, ccSrc: boardCC, mem: 122570, memSrc: boardProps, gbps: 273, gbpsSrc: "nvidia-dgx-spark", sms: 48,
		smsSrc: boardProps, noMIG: boardSMI, src: "pci-ids",
		note: "memory is the CPU's too, what its system and programs use is missing here; CUDA reports its size, NVML does " +
			"not"},
	{name: "RTX PRO 6000 Blackwell Server Edition",
		aliases: names("RTX PRO 6000", "RTX PRO 6000 Server", "RTX PRO 6000 Blackwell", "RTX PRO 6000 Blackwell Server"),
		pci:     names("10DE:2BB5"), chip: "GB202",
		cc: cc120, ccSrc: boardCC, mem: 97887, memSrc: boardMIG, gbps: 1597, gbpsSrc: "nvidia-rtx-pro-server", sms: 188,
		smsSrc: boardMIG, mig: Driver{575, 51, 3}, vgpu: boardMIG, src: boardMIG,
		note: "bandwidth is the product page's; the RTX Blackwell PRO white paper is quoted with the Workstation Edition's " +
			"1792 GB/s"},
	{name: "RTX PRO 6000 Blackwell Workstation Edition",
		aliases: names("RTX PRO 6000", "RTX PRO 6000 Workstation", "RTX PRO 6000 Blackwell",
			"RTX PRO 6000 Blackwell Workstation"), pci: names("10DE:2BB1"), chip: "GB202",
		cc: cc120, ccSrc: boardCC, mem: 97887, memSrc: boardMIG, gbps: 1792, gbpsSrc: "nvidia-rtx-pro", sms: 188,
		smsSrc: boardMIG, mig: Driver{575, 51, 3}, src: boardMIG,
		note: "MIG needs compute mode set with DisplayModeSelector and vBIOS 98.02.55 or later"},
	{name: "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
		aliases: names("RTX PRO 6000", "RTX PRO 6000 Max-Q", "RTX PRO 6000 Blackwell"), pci: names("10DE:2BB4"),
		chip: "GB202",
		cc:   cc120, ccSrc: boardCC, mem: 97887, memSrc: boardMIG, gbps: 1792, gbpsSrc: "nvidia-rtx-pro", sms: 188,
		smsSrc: boardMIG, mig: Driver{575, 51, 3}, src: boardMIG,
		note: "MIG needs compute mode set with DisplayModeSelector and vBIOS 98.02.6A or later"},
	{name: "RTX PRO 5000 Blackwell", aliases: names("RTX PRO 5000", "RTX PRO 5000 48GB"), pci: names("10DE:2BB3"),
		chip: "GB202",
		cc:   cc120, ccSrc: boardCC, mem: 49152, memSrc: boardMIG, nominal: true, gbps: 1344, gbpsSrc: "nvidia-rtx-pro",
		mig: Driver{575, 57, 8}, src: boardMIG,
		note: "sources disagree on its MIG profiles: read them from the device"},
	{name: "RTX PRO 5000 72GB Blackwell", aliases: names("RTX PRO 5000", "RTX PRO 5000 72GB"), pci: names("10DE:2BB3"),
		chip: "GB202",
		cc:   cc120, ccSrc: boardMIG, mem: 73728, memSrc: boardMIG, nominal: true, gbps: 1344, gbpsSrc: "nvidia-rtx-pro",
		mig: migUnknownDriver, src: boardMIG,
		note: "no table of its MIG profiles was found: read them from the device"},
	{name: "RTX PRO 4500 Blackwell", aliases: names("RTX PRO 4500"), pci: names("10DE:2C31"), chip: "GB203",
		cc: cc120, ccSrc: boardCC, mem: 32768, memSrc: boardMIG, nominal: true, gbps: 896, gbpsSrc: "nvidia-rtx-pro",
		mig: Driver{575, 64, 0}, src: boardMIG},
}
