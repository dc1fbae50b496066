package advise

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"text/template"
	"time"
)

//go:embed cronjob.yaml
var cronYAML string

var cronTemplate = template.Must(template.New("").Parse(cronYAML))

// CronJob writes the objects with which a cluster looks at itself: a CronJob that runs `cotenant advise` of an image, a
// ServiceAccount that may get and list what is read and change nothing, and a volume for the looks. every must divide
// an hour or a day; patience is that of Options.
func CronJob(namespace, image string, every, patience time.Duration) ([]byte, error) {
	if image == "" {
		return nil, errors.New("advise: a CronJob needs an image with the program as its entry point")
	}
	schedule := ""
	switch minutes, hours := int(every/time.Minute), int(every/time.Hour); {
	case every >= time.Minute && every <= time.Hour/2 && time.Hour%every == 0 && every%time.Minute == 0:
		schedule = fmt.Sprintf("*/%d * * * *", minutes)
	case every == 24*time.Hour:
		schedule = "0 0 * * *"
	case every >= time.Hour && every%time.Hour == 0 && 24%hours == 0:
		schedule = fmt.Sprintf("0 */%d * * *", hours)
	default:
		return nil, fmt.Errorf("advise: %v divides neither an hour nor a day into whole minutes or hours: use 15m, 1h or 24h",
			every)
	}
	var out bytes.Buffer
	err := cronTemplate.Execute(&out, map[string]string{"Namespace": namespace, "Image": image, "Schedule": schedule,
		"Patience": patience.String()})
	return out.Bytes(), err
}
