// Fine-tunes a BERT on a file of texts and labels, saves it, loads it on other devices, labels a
// sentence.
//
//   build/examples/fine_tune MODEL TRAIN DEV OUT [DEVICES]
//   build/examples/fine_tune bert-base-uncased train.csv dev.csv out 2xcpu
#include <yoke/yoke.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 5) {
    std::cerr << "usage: fine_tune MODEL TRAIN DEV OUT [DEVICES]\n";
    return 2;
  }
  yoke::set_log_sink([](yoke::LogLevel, const std::string& line) { std::cerr << line << '\n'; });

  yoke::Trainer trainer({.model = argv[1],
                         .devices = argc > 5 ? argv[5] : "auto",
                         .epochs = 1,
                         .overwrite = true,
                         .on_event = [](const yoke::Event& event) {
                           if (auto* step = std::get_if<yoke::StepEvent>(&event))
                             std::cerr << "step " << step->step << "  loss " << step->loss << '\n';
                         }});
  trainer.train(argv[2]);
  const double trained = trainer.evaluate(argv[3])["accuracy"];
  trainer.save(argv[4], /*overwrite=*/true);

  // Loading is naming the folder; the devices may be others.
  yoke::Trainer again({.model = argv[4], .devices = "cpu"});
  const double loaded = again.evaluate(argv[3])["accuracy"];
  std::cout << "accuracy " << trained << ", after loading " << loaded << '\n';
  for (const auto& p : again.predict(std::vector<std::string>{"a gripping film"}))
    std::cout << p.label << ' ' << p.score << '\n';
  return trained == loaded ? 0 : 1;
} catch (const yoke::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
