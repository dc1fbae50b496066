// SPDX-License-Identifier: Apache-2.0

package nvsmi

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

func file(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mib(n int64) optional.Value[sharing.Bytes] {
	return optional.Of(sharing.Bytes(n) * sharing.MiB)
}

// realGPU returns the expected reading of a board in testdata, transcribed from its file.
func realGPU(name string) telemetry.GPU {
	g := telemetry.GPU{Index: optional.Of(0), UUID: "GPU-f35d705d-9611-cf07-ad88-603217e945e4", Name: "NVIDIA H100 80GB HBM3",
		PCIBus: "00000000:00:06.0", PCIID: "10DE:2330",
		MemoryTotal: mib(81559), MIG: sharing.AnswerNo, Architecture: sharing.ArchitectureHopper,
		ProcessesListed: sharing.AnswerYes, Processes: []telemetry.Process{{PID: 412, Name: "python3", Memory: mib(1924)}}, MPS: sharing.AnswerNo}
	if name == "h200" {
		g.UUID, g.Name, g.PCIID = "GPU-63ea5d6e-fa85-65d4-eeb7-3e723952ba5d", "NVIDIA H200", "10DE:2335"
		g.MemoryTotal, g.Processes[0].PID = mib(143771), 421
	}
	return g
}

func TestXMLOfRealGPUs(t *testing.T) {
	for _, name := range []string{"h100", "h200"} {
		want := telemetry.Inventory{Driver: "580.159.04", GPUs: []telemetry.GPU{realGPU(name)}}
		got, err := XML(strings.NewReader(file(t, name+".xml")))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		model, err := got.GPUs[0].Model()
		if err != nil || !strings.HasPrefix(strings.ToLower(model.Name), name) {
			t.Errorf("%s is the table's %v, %v", name, model, err)
		}
	}
}

// TestUnread: outputs without the needed figures are known by name.
func TestUnread(t *testing.T) {
	for text, want := range map[string]string{
		"Thu Jul 16 10:11:12 2026\n+---+\n| NVIDIA-SMI 580.95.05   Driver Version: 580.95.05 |\n":    "table",
		"me@gpu:~$ nvidia-smi\nThu Jul 16\n+---+\n| NVIDIA-SMI 470.57 Driver |\n":                    "table",
		"GPU 0: NVIDIA H200 (UUID: GPU-60000000-aaaa)\n  MIG 3g.71gb     Device  0: (UUID: MIG-1)\n": "-L",
		"\n==============NVSMI LOG==============\n\nTimestamp : Wed\n":                               "nvidia-smi -q",
		"$ nvidia-smi mig -lgi\nNo GPU instances found\n":                                            "mig -lgi",
		"name, memory.total [MiB]\nT4, 1 MiB\n":                                                      "--query-gpu",
		"root@gpu-1:~# nvidia-smi --query-gpu=uuid --format=csv\nuuid\nGPU-1\n":                      "--query-gpu",
		"name, memory.total [MiB]\nNVIDIA A100-SXM4-80GB, [Insufficient Permissions]\n":              "print it on the node",
		"a note on NVIDIA-SMI 580 and GPU 0\n":                                                       "",
		"# gpu metrics\nvllm:num_requests 1\n":                                                       "",
		"kind: Pod\n":                                                                                "",
	} {
		if got := Unread([]byte(text)); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// A MIG GPU as driver 575 prints it, with only the fields that are read; the second GPU is a T4.
const migXML = `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<driver_version>575.57.08</driver_version>
	<gpu id="00000000:0F:00.0">
		<product_name>NVIDIA A100-SXM4-80GB</product_name>
		<mig_mode><current_mig>Enabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
		<mig_devices>
			<mig_device>
				<index>0</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id>
				<device_attributes><shared><multiprocessor_count>42</multiprocessor_count></shared></device_attributes>
				<fb_memory_usage><total>40192 MiB</total><reserved>0 MiB</reserved><used>298 MiB</used><free>39894 MiB</free></fb_memory_usage>
			</mig_device>
		</mig_devices>
		<uuid>GPU-00000000-0000-0000-0000-00000000000a</uuid>
		<fb_memory_usage><total>81920 MiB</total><used>[N/A]</used><free>Insufficient Permissions</free></fb_memory_usage>
		<compute_mode>Exclusive_Process</compute_mode>
		<utilization><gpu_util>N/A</gpu_util><memory_util>N/A</memory_util></utilization>
		<power_readings><power_draw>61.20 W</power_draw><power_limit>400.00 W</power_limit></power_readings>
		<processes>
			<process_info><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id><pid>9</pid><type>M+C</type>
				<process_name>/opt/serve --token s3cret</process_name><used_memory>N/A</used_memory></process_info>
		</processes>
	</gpu>
	<gpu id="00000000:10:00.0">
		<product_name>Tesla T4</product_name>
		<mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
		<mig_devices>None</mig_devices>
		<uuid>GPU-00000000-0000-0000-0000-00000000000b</uuid>
		<utilization><gpu_util>[Not Supported]</gpu_util></utilization>
		<processes>
			<process_info><pid>11</pid><type>C</type><process_name>nvidia-cuda-mps-server</process_name><used_memory>30 MiB</used_memory></process_info>
		</processes>
	</gpu>
</nvidia_smi_log>`

func migGPUs() []telemetry.GPU {
	return []telemetry.GPU{
		{Index: optional.Of(0), UUID: "GPU-00000000-0000-0000-0000-00000000000a", Name: "NVIDIA A100-SXM4-80GB", PCIBus: "00000000:0f:00.0",
			MemoryTotal: mib(81920), MIG: sharing.AnswerYes, ProcessesListed: sharing.AnswerYes, MPS: sharing.AnswerYes,
			Instances: []telemetry.MIGInstance{{ID: optional.Of(1)}},
			Processes: []telemetry.Process{{PID: 9, Name: "serve", GPUInstance: optional.Of(1)}}},
		{Index: optional.Of(1), UUID: "GPU-00000000-0000-0000-0000-00000000000b", Name: "Tesla T4", PCIBus: "00000000:10:00.0",
			ProcessesListed: sharing.AnswerYes, MPS: sharing.AnswerYes,
			Processes: []telemetry.Process{{PID: 11, Name: "nvidia-cuda-mps-server", Memory: mib(30)}}},
	}
}

func TestXMLWithMIG(t *testing.T) {
	got, err := XML(strings.NewReader(migXML))
	if diff := cmp.Diff(telemetry.Inventory{Driver: "575.57.08", GPUs: migGPUs()}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// What only draws on a GPU is no workload, a process that is listed once for each of its contexts is one, and a GPU
// that is lost is there and says so. The types are those of nvidia-smi's manual: C, G, C+G, M+C.
func TestXMLOfAWorkstation(t *testing.T) {
	process := func(pid, kind, name, memory string) string {
		return fmt.Sprintf("<process_info><gpu_instance_id>N/A</gpu_instance_id><pid>%s</pid><type>%s</type><process_name>%s</process_name><used_memory>%s</used_memory></process_info>", pid, kind, name, memory)
	}
	got, err := XML(strings.NewReader(`<?xml version="1.0" ?><nvidia_smi_log><driver_version>580.65.06</driver_version>
<gpu id="00000000:01:00.0"><product_name>NVIDIA GeForce RTX 4070 Ti</product_name><product_architecture>Ada Lovelace</product_architecture><uuid>GPU-d</uuid>
<fb_memory_usage><total>12282 MiB</total></fb_memory_usage><processes>` +
		process("1201", "G", "/usr/lib/xorg/Xorg", "412 MiB") + process("1893", "C+G", "/opt/google/chrome/chrome --type=gpu-process", "205 MiB") +
		process("2200", "C+G", "/usr/share/code/code", "90 MiB") + process("4711", "C", "/opt/train/python3 x.py", "7000 MiB") +
		process("4711", "C+G", "/opt/train/python3 x.py", "7040 MiB") + `</processes></gpu>
<gpu id="00000000:02:00.0"><product_name>GPU is lost</product_name><product_architecture>GPU is lost</product_architecture><uuid>GPU is lost</uuid>
<fb_memory_usage><total>GPU is lost</total></fb_memory_usage></gpu></nvidia_smi_log>`))
	if err == nil || !strings.Contains(err.Error(), `gpu[1].uuid: nvidia-smi answers "GPU is lost"`) || strings.Contains(err.Error(), "has no UUID") {
		t.Errorf("%v", err)
	}
	want := []telemetry.GPU{{Index: optional.Of(0), UUID: "GPU-d", Name: "NVIDIA GeForce RTX 4070 Ti", PCIBus: "00000000:01:00.0", Architecture: sharing.ArchitectureAda,
		MemoryTotal: mib(12282), ProcessesListed: sharing.AnswerYes, MPS: sharing.AnswerNo, Processes: []telemetry.Process{{PID: 4711, Name: "python3", Memory: mib(7040)}}},
		{Index: optional.Of(1), PCIBus: "00000000:02:00.0", Lost: true}}
	if diff := cmp.Diff(want, got.GPUs); diff != "" {
		t.Error(diff)
	}
	if m, err := got.GPUs[0].Model(); err != nil || m.Name != "GeForce RTX 4070 Ti (12282MiB, ada)" {
		t.Errorf("%v, %v", m, err)
	}
}

// Bad input: each problem has its path, and the rest is still there.
func TestProblems(t *testing.T) {
	broken := strings.NewReplacer("<total>81559 MiB</total>\n\t\t\t<reserved>", "<total>-5 MiB</total>\n\t\t\t<reserved>", "<current_mig>Disabled<", "<current_mig>Perhaps<", "<pci_device_id>233010DE<", "<pci_device_id>ERR!<").Replace(file(t, "h100.xml"))
	got, err := XML(strings.NewReader(broken))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"gpu[0].fb_memory_usage.total", `gpu[0].mig_mode.current_mig: "Perhaps" is neither`, `gpu[0].pci.pci_device_id: nvidia-smi answers "ERR!"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if g := got.GPUs[0]; !g.MemoryTotal.IsZero() || g.MIG != sharing.AnswerUnknown || g.PCIID != "" || g.UUID == "" {
		t.Errorf("%+v", g)
	}
	whole := migXML
	cut := whole[:strings.Index(whole, "Tesla T4")]
	inv, err := XML(strings.NewReader(cut))
	if err == nil || !strings.Contains(err.Error(), "gpu[1]") || len(inv.GPUs) != 1 {
		t.Errorf("cut off: %d GPUs, %v", len(inv.GPUs), err)
	}
	for _, text := range []string{"", "<html></html>", "{}", "kind: Pod"} {
		if _, err := XML(strings.NewReader(text)); !errors.Is(err, ErrKind) {
			t.Errorf("XML(%q): %v", text, err)
		}
	}
}

// FuzzXML reads any text: a value or an error, and no argument of a command line.
func FuzzXML(f *testing.F) {
	f.Add(file(f, "h100.xml"))
	f.Add(migXML)
	f.Fuzz(func(t *testing.T, s string) {
		inv, err := XML(strings.NewReader(s))
		if err != nil && errors.Is(err, ErrKind) && len(inv.GPUs) > 0 {
			t.Errorf("another kind, and yet %d GPUs", len(inv.GPUs))
		}
		for _, g := range inv.GPUs {
			if g.MemoryTotal.Or(0) < 0 {
				t.Errorf("%+v", g)
			}
			for _, p := range g.Processes {
				if strings.Contains(p.Name, " ") {
					t.Errorf("an argument was kept: %q", p.Name)
				}
			}
		}
	})
}

// With MPS the clients are of type M+C, and the server is among the processes.
func TestMPSOfARealGPU(t *testing.T) {
	processes := map[string]telemetry.Process{
		"client": {PID: 505, Name: "python3", Memory: mib(1860)}, "server": {PID: 524, Name: "nvidia-cuda-mps-server", Memory: mib(66)}}
	got, err := XML(strings.NewReader(file(t, "h100-mps.xml")))
	if err != nil || got.GPUs[0].MPS != sharing.AnswerYes {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]telemetry.Process{processes["client"], processes["server"]}, got.GPUs[0].Processes); diff != "" {
		t.Error(diff)
	}
}

// A text of nothing but GPUs that say nothing is refused within the memory that its problems take.
func TestXMLBoundsMemory(t *testing.T) {
	text := "<nvidia_smi_log>" + strings.Repeat("<gpu/>", 300_000) + "</nvidia_smi_log>"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := XML(strings.NewReader(text))
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys-before.HeapSys) >> 20; err == nil || grown > 64 {
		t.Errorf("%v with %d MiB", err != nil, grown)
	}
}
